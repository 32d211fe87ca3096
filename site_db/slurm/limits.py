"""The settings of accounts, users and qualities of service (QOS) in Slurm's accounting: limits and numbers.

<https://slurm.schedmd.com/resource_limits.html>
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any

from scheduler.priority.policy import PARENT, Preempted, PreemptMode, ResourceLimits
from site_db.slurm.lines import Line
from site_db.slurm.values import NotModelled, PolicySetting, amount

_OF_BOTH = {
    "GrpTRES": ("group", "tres"),
    "GrpTRESMins": ("group", "minutes"),
    "GrpTRESRunMins": ("group", "minutes_to_run"),
    "GrpWall": ("group", "minutes"),
    "GrpJobs": ("group", "running"),
    "GrpSubmitJobs": ("group", "submitted"),
    "MaxTRESPerJob": ("job", "tres"),
    "MaxTRESPerNode": ("job", "per_node"),
    "MaxTRESMinsPerJob": ("job", "minutes"),
    "MaxWallDurationPerJob": ("job", "wall_s"),
    "Priority": ("", "priority"),
}
OF_ASSOCIATIONS = {
    **_OF_BOTH,
    "MaxJobs": ("own", "running"),
    "MaxSubmitJobs": ("own", "submitted"),
    "Fairshare": ("", "shares"),
}
OF_QUALITIES = {
    **_OF_BOTH,
    **dict.fromkeys(("MaxJobs", "MaxJobsPerUser"), ("of_user", "running")),
    **dict.fromkeys(("MaxSubmitJobs", "MaxSubmitJobsPerUser"), ("of_user", "submitted")),
    "MaxTRESPerUser": ("of_user", "tres"),
    "MaxJobsPerAccount": ("of_account", "running"),
    "MaxSubmitJobsPerAccount": ("of_account", "submitted"),
    "MaxTRESPerAccount": ("of_account", "tres"),
    **dict.fromkeys(("MaxTRESRunMins", "MaxTRESRunMinsPerUser"), ("of_user", "minutes_to_run")),
    "MaxTRESRunMinsPerAccount": ("of_account", "minutes_to_run"),
    "UsageFactor": ("", "usage_factor"),
    "Preempt": ("", "preempts"),
    "PreemptMode": ("preempted", "mode"),
    "PreemptExemptTime": ("preempted", "exempt_s"),
    "GraceTime": ("preempted", "grace_s"),
}
"""Where the settings belong: to which limits, or to what is limited itself, and there to which value."""
_ACCRUING = ("GrpJobsAccrue", "MaxJobsAccrue", "MaxJobsAccruePerUser", "MaxJobsAccruePerAccount")
_OTHER = {
    **dict.fromkeys(_ACCRUING, "the number of jobs that age has no limits"),
    "Flags": "it is not modelled",
    "LimitFactor": "limits are as they are stated",
    "MinPrioThresh": "jobs of any priority have reservations",
    "MinTRESPerJob": "jobs may be small",
    "UsageThreshold": "jobs wait for no share of usage",
}
"""Settings that are not modelled, and what holds instead."""
_READ_ELSEWHERE = ("DefaultAccount", "DefaultQOS", "Partition", "QOS")
_WITHOUT_EFFECT = (
    *("AdminLevel", "Classification", "Comment", "Coordinator", "DefaultWCKey", "Description"),
    *("MaxTRESRunMins", "Organization", "WCKeys"),  # in Slurm, MaxTRESRunMins bounds nothing but a QOS
)
_SHORTER = {
    "durationperjob": "", "perjob": "", "pj": "", "peruser": "pu", "peraccount": "pa", "peracct": "pa",
    "pernode": "pn", "submitjobs": "submit", "threshold": "thres",
}  # fmt: skip
_SAME = {"share": "fairshare", "shares": "fairshare", "qoslevel": "qos", "defqos": "defaultqos"}
_OLD = re.compile(r"(grp|max)(cpu|node|mem)(?:s|ory)?((?:run)?mins)?(p[ua])?")
"""Matches limits of one TRES, which Slurm still takes."""
_OF_PARENT = ("parent", str(2**31 - 1))
"""Fairshare=parent, as users and a dump have it."""


def _short(key: str) -> str:
    """The shortest of the names that commands have for a setting."""
    key = key.lower()
    for long, short in _SHORTER.items():
        key = key.replace(long, short)
    return _SAME.get(key, key)


_NAMES = {
    _short(name): name
    for name in (*OF_ASSOCIATIONS, *OF_QUALITIES, *_OTHER, *_READ_ELSEWHERE, *_WITHOUT_EFFECT)
}


def settings_of(line: Line, of: str, ignored: NotModelled) -> Iterator[PolicySetting]:
    """The settings of a line that have a value, with their full names. Raises InvalidFile."""
    for key, value in line.pairs[1:]:
        short = _short(key)
        if (old := _OLD.fullmatch(short)) is not None:
            short, value = f"{old[1]}tres{old[3] or ''}{old[4] or ''}", f"{old[2]}={value}"
        longer = (name for known, name in _NAMES.items() if len(short) > 3 and known.startswith(short))
        name = _NAMES.get(short) or next(longer, None)
        if value in ("", "-1"):
            continue
        if name is None:
            ignored.add_unknown(PolicySetting(line, of, key, value), _NAMES.values())
        else:
            yield PolicySetting(line, of, name, value)


def said(
    settings: Iterable[PolicySetting], known: Mapping[str, tuple[str, str]], ignored: NotModelled
) -> dict[str, Any]:
    """The fields of an association or a QOS that settings state. Raises InvalidFile."""
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        key = setting.key
        if key in known:
            whose, what = known[key]
            values = found.setdefault(whose, {})
            values[what] = _value(setting, what, values.get(what, {}), ignored)
        elif key == "Flags":
            flags = {flag.lower(): flag for flag in setting.value.split(",")}
            if flags.pop("overpartqos", None):
                found.setdefault("", {})["over_partition"] = True
            flags.pop("denyonlimit", None)  # jobs that exceed a limit alone are refused anyway
            for flag in flags.values():
                ignored.add(setting._replace(value=flag), _OTHER[key], f"{key}={flag}")
        elif key in _OTHER:
            ignored.add(setting, _OTHER[key])
        elif key not in _READ_ELSEWHERE and key not in _WITHOUT_EFFECT:
            raise setting.line.mistake(f"{setting.of} has {key}, which is not for it; remove it")
    numbers = found.pop("", {})
    of_preemption = {whose: Preempted(**values) for whose, values in found.items() if whose == "preempted"}
    limits = {
        whose: ResourceLimits(**values) for whose, values in found.items() if whose not in of_preemption
    }
    return limits | of_preemption | numbers


def _value(setting: PolicySetting, what: str, before: Mapping[str, float], ignored: NotModelled) -> Any:
    if setting.key == "GrpWall":
        return {**before, "wall": setting.time_s / 60}
    if what in ("tres", "per_node", "minutes", "minutes_to_run"):
        return {**before, **setting.tres(amount, ignored)}
    if what == "wall_s":
        return None if (time_s := setting.time_s) == inf else time_s
    if what in ("grace_s", "exempt_s"):
        return setting.time_s
    if what == "mode":
        mode = setting.preempt_mode(ignored)
        return None if mode is PreemptMode.OFF else mode  # for which Slurm takes that of the site
    if what == "preempts":
        return tuple(filter(None, setting.value.lower().split(",")))
    if what == "usage_factor":
        return setting.factor
    if what == "shares" and setting.value.lower() in _OF_PARENT:
        return PARENT
    number = setting.whole
    if number is None and what in ("shares", "priority"):
        raise setting.mistake("a whole number")
    return number


def inherited(own: ResourceLimits, above: ResourceLimits) -> ResourceLimits:
    """The limits of an association, and where it has none those of its account."""
    return ResourceLimits(
        {**above.tres, **own.tres},
        above.running if own.running is None else own.running,
        above.submitted if own.submitted is None else own.submitted,
        above.wall_s if own.wall_s is None else own.wall_s,
        {**above.minutes, **own.minutes},
        per_node={**above.per_node, **own.per_node},
    )
