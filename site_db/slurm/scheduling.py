"""The parameters of Slurm's schedulers in `slurm.conf`.

<https://slurm.schedmd.com/sched_config.html>
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from scheduler.priority.policy import BackfillParameters
from site_db.slurm.values import NotModelled, PolicySetting

_MODELLED = {each.name for each in fields(BackfillParameters)}
_MOST = {"bf_interval": 10_800, "bf_window": 43_200, "bf_resolution": 3_600, "bf_max_job_test": 1_000_000}
"""The largest values that Slurm takes of some parameters, of which the least is 1."""
_OF_TIME = ("bf_continue", "bf_max_time", "bf_yield_interval", "bf_yield_sleep", "max_sched_time")


def changed(name: str, old: str, new: str) -> str:
    """The value of a setting, by its key in small letters, that was `old` and is given anew: of the list of
    SchedulerParameters, only the options that are given change, unless it is left out."""
    if name != "schedulerparameters" or not new:
        return new
    options = (option.strip() for option in f"{old},{new}".split(","))
    return ",".join({option.partition("=")[0].strip(): option for option in options if option}.values())


def scheduling(
    settings: Mapping[str, PolicySetting], ignored: NotModelled, has_nodes: bool
) -> dict[str, int]:
    """Some of `BackfillParameters`, from settings by their keys in small letters, of a file that perhaps
    `has_nodes`, too. Raises InvalidFile."""
    found, kind, listed = dict[str, int](), settings.get("schedulertype"), settings.get("schedulerparameters")
    if listed is not None:
        for word in filter(None, map(str.strip, listed.value.split(","))):
            key, _, value = word.partition("=")
            each, name = listed._replace(key=f"SchedulerParameters={key}", value=value), key.lower()
            if name == "max_switch_wait":
                if not has_nodes:
                    ignored.add(each, "it counts in the slurm.conf of the nodes, beside its topology.conf")
            elif name not in _MODELLED:
                ignored.add(each, "decisions take no time" if name in _OF_TIME else "it is not modelled")
            elif each.whole is None or not (name not in _MOST or 1 <= each.whole <= _MOST[name]):
                ignored.add(each, "it is not in Slurm's range, or switches a scheduler off")
            else:
                found[name] = each.whole
    if kind is not None and kind.value.lower() == "sched/builtin":
        ignored.add(kind, "only slurm_backfill has no backfilling then; in one partition, it is like fcfs")
        found["bf_max_job_test"] = 0
    return found
