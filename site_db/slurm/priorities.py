"""The settings of priorities in `slurm.conf`: weights of factors, partitions, and what is enforced.

<https://slurm.schedmd.com/priority_multifactor.html>
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any

from scheduler.messages import counted
from scheduler.priority.policy import (
    RESET_PERIODS,
    Multifactor,
    PartitionPolicy,
    Preempted,
    Preemption,
    PreemptMode,
    SitePolicy,
    Weights,
)
from site_db.slurm.keys import KINDS, IgnoredKeys
from site_db.slurm.lines import Line, lines_of, pairs_of, with_defaults
from site_db.slurm.nodes import order_of_service
from site_db.slurm.output import NO, NO_LIMIT, YES
from site_db.slurm.values import NotModelled, PolicySetting, changed, scheduling, weight

WEIGHTS = {
    "PriorityWeightAge": "age",
    "PriorityWeightAssoc": "assoc",
    "PriorityWeightFairshare": "fair_share",
    "PriorityWeightJobSize": "job_size",
    "PriorityWeightPartition": "partition",
    "PriorityWeightQOS": "qos",
}
"""The fields of `Weights` by Slurm's keys."""
_READ = (
    *(*WEIGHTS, "PriorityWeightTRES", "PriorityType", "PriorityFlags", "PriorityDecayHalfLife"),
    "PriorityUsageResetPeriod",
    *("PriorityMaxAge", "PriorityCalcPeriod", "PriorityFavorSmall", "FairShareDampeningFactor"),
    *("AccountingStorageEnforce", "PreemptType", "PreemptMode", "PreemptExemptTime", "PreemptParameters"),
    *("SchedulerParameters", "SchedulerType"),
)
_OF_PARTITIONS = (
    *("Priority", "PriorityJobFactor", "PriorityTier", "QOS", "TRESBillingWeights"),
    *("PreemptMode", "GraceTime"),
)
MODELLED = frozenset(name.lower() for name in (*_READ, *_OF_PARTITIONS))
"""The keys of `slurm.conf` that a policy has, in small letters."""
_NOT_MODELLED = {
    "PriorityParameters": "it is for a plugin of the site",
    "PrioritySiteFactorParameters": "priorities have no factor of a plugin of the site",
    "PrioritySiteFactorPlugin": "priorities have no factor of a plugin of the site",
}
_KNOWN = {name.lower(): name for name in (*_READ, *_NOT_MODELLED)}
_FACTORS = ("assoc", "part", "qos", "tres")
_NOT_NORMALISED = {**{f"NO_NORMAL_{name.upper()}": {name} for name in _FACTORS}, "NO_NORMAL_ALL": {*_FACTORS}}
_OTHER_FLAGS = {
    **dict.fromkeys(("ACCRUE_ALWAYS", "CALCULATE_RUNNING", "INCR_ONLY"), "it is not modelled"),
    **dict.fromkeys(("MAX_TRES", "MAX_TRES_GRES"), "a job is billed for the sum of its TRES"),
    "DEPTH_OBLIVIOUS": "it is not modelled; the classic fair share is used",
}
_FLAGS = (*_NOT_NORMALISED, "FAIR_TREE", "NO_FAIR_TREE", "SMALL_RELATIVE_TO_TIME", *_OTHER_FLAGS)
_ENFORCED = {
    **dict.fromkeys(("0", "none", "nojobs", "nosteps"), ()),
    **dict.fromkeys(("1", "associations", "wckeys"), ("associations",)),
    **dict.fromkeys(("2", "limits"), ("associations", "limits")),
    "safe": ("associations", "limits", "safe"),
    "qos": ("associations", "qos"),
    "all": ("associations", "limits", "qos", "safe"),
}
"""What each word of AccountingStorageEnforce enforces."""
_OTHER_WORDS = {"wckeys": "there are no WCKeys"}
_OTHER_PARAMETERS = {
    **dict.fromkeys(("reorder_count", "strict_order"), "as few runs are stopped as suffice, in order"),
    **dict.fromkeys(
        ("min_exempt_priority", "reclaim_licenses", "send_user_signal", "suspend_grace_time"),
        "it is not modelled",
    ),
}
_PARAMETERS = ("youngest_first", *_OTHER_PARAMETERS)
_SIMILAR = 0.85


def read_priorities(
    path: Path, ignored: NotModelled, qualities: Collection[str] | None, has_nodes: bool, settings: str = ""
) -> SitePolicy:
    """The policy of a `slurm.conf` with some other `settings`, without associations and `qualities` of
    service, whose names are perhaps known. If it `has_nodes` that are in use, it is read for these, too.
    Raises InvalidFile."""
    conf, others = _Configuration(ignored, qualities), list[str]()
    for kind, whole, line in with_defaults(lines_of(path, others), KINDS):
        conf.add(kind, whole, line)
    conf.change(settings)
    if not has_nodes:
        ignored.others += (*others, *conf.others())
    return SitePolicy(
        conf.multifactor,
        partitions=conf.partitions,
        enforces=conf.enforces,
        preemption=conf.preemption,
        scheduling=scheduling(conf.settings, ignored, has_nodes),
    )


@dataclass
class _Configuration:
    ignored: NotModelled
    qualities: Collection[str] | None
    settings: dict[str, PolicySetting] = field(default_factory=dict)
    """By key in small letters."""
    partitions: dict[str, PartitionPolicy] = field(default_factory=dict)
    _keys: IgnoredKeys = field(default_factory=lambda: IgnoredKeys(MODELLED))
    _lines: dict[str, Line] = field(default_factory=dict)
    """The lines of settings, by key in small letters."""
    _n_of_nodes: int = 0
    """The lines that say more of nodes and partitions than the policy."""

    def add(self, kind: str, whole: Line, line: Line) -> None:
        if kind:
            self._n_of_nodes += not line.values.keys() <= MODELLED | {kind}
        if kind == "partitionname":
            self._keys.note(kind, whole, line)
            if not line.sets_defaults(kind):
                self.partitions[line.values[kind]] = self._partition(whole)
        elif not kind:
            self._keys.check_first_word(line)
            self._lines.update(dict.fromkeys(line.values, line))
            for pair in line.pairs:
                self._add_setting(PolicySetting(line, "slurm.conf", *pair))

    def change(self, settings: str) -> None:
        """Change settings: `PriorityWeightFairshare=0 SchedulerParameters=bf_interval=60`; one without a
        value is left out. Raises InvalidFile."""
        line = Line({}, f"the setting {settings}", (*pairs_of(settings),))
        line.check_words()
        for pair in line.pairs:
            old, name = self.settings.get(pair.name), pair.name
            value = changed(name, "" if old is None else old.value, pair.value)
            self._add_setting(PolicySetting(line, "slurm.conf", pair.key, value))
            if name not in self.settings or "max_switch_wait" in pair.value.lower():
                raise line.mistake(f"{pair} cannot change; expected one of {', '.join(_READ)}")
            if not value:
                del self.settings[name]

    def others(self) -> Iterator[str]:
        """What a file of nodes would say, too."""
        if self._n_of_nodes:
            yield (
                f"{counted(self._n_of_nodes, 'line')} of the policy's slurm.conf describe nodes, or what "
                f"partitions have and allow: that is taken from the file of nodes"
            )
        yield from self._keys.sentences
        yield from order_of_service(self._lines, MODELLED)

    def _add_setting(self, setting: PolicySetting) -> None:
        name = setting.key.lower()
        if name not in _KNOWN:
            if similar := get_close_matches(name[:40], _KNOWN, 1, _SIMILAR):
                expected = f"did you mean {_KNOWN[similar[0]]}?"
                raise setting.line.mistake(f"{setting.key} is no key of Slurm; {expected}")
        elif _KNOWN[name] in _READ:
            self.settings[name] = setting
        elif setting.value.lower() not in NO_LIMIT:
            self.ignored.add(setting, _NOT_MODELLED[_KNOWN[name]])

    def _partition(self, line: Line) -> PartitionPolicy:
        of, both = f"partition {line.values['partitionname']}", line.number("priority", default=1)
        qos = PolicySetting(line, of, "QOS", line.get("qos").lower())
        is_set = qos.value not in NO_LIMIT
        if is_set:
            qos.check_qos(qos.value, self.qualities)
        return PartitionPolicy(
            line.number("prioritytier", default=both),
            line.number("priorityjobfactor", default=both),
            qos.value if is_set else "",
            PolicySetting(line, of, "TRESBillingWeights", line.get("tresbillingweights")).tres(
                weight, self.ignored
            ),
            Preempted(
                PolicySetting(line, of, "PreemptMode", line.get("preemptmode")).preempt_mode(self.ignored),
                line.number("gracetime", default=0),
            ),
        )

    @property
    def preemption(self) -> Preemption | None:
        """Raises InvalidFile."""
        kind, mode, exempt = map(self._get, ("PreemptType", "PreemptMode", "PreemptExemptTime"))
        if kind is None or kind.value == "preempt/none":
            return None
        if kind.value not in ("preempt/qos", "preempt/partition_prio"):
            raise kind.mistake("preempt/none, preempt/qos or preempt/partition_prio")
        how = None if mode is None else mode.preempt_mode(self.ignored)
        if how in (None, PreemptMode.OFF):
            raise kind.line.mistake(f"{kind.key}={kind.value} needs a PreemptMode, like REQUEUE or CANCEL")
        if how is PreemptMode.SUSPEND and mode is not None and "GANG" not in mode.value.upper():
            raise mode.mistake("SUSPEND,GANG: Slurm lets no job continue without GANG")
        by_partition = kind.value == "preempt/partition_prio"
        if how is PreemptMode.SUSPEND and mode is not None and not by_partition:
            reason = "a job suspends others of its partition until it ends, instead of by turns"
            self.ignored.add(mode, reason, how="approximate")
        exempt_s = 0.0 if exempt is None or exempt.value.lower() in NO_LIMIT else exempt.time_s
        parameters = self._get("PreemptParameters")
        words = () if parameters is None else self._words(parameters, _PARAMETERS, _OTHER_PARAMETERS)
        return Preemption(by_partition, how, exempt_s, "youngest_first" in list(words))

    @property
    def multifactor(self) -> Multifactor | None:
        """Raises InvalidFile."""
        kind, tres = self._get("PriorityType"), self._get("PriorityWeightTRES")
        if kind is not None and kind.value not in ("priority/basic", "priority/multifactor"):
            raise kind.mistake("priority/basic or priority/multifactor")
        weights: dict[str, Any] = {
            name: setting.factor for key, name in WEIGHTS.items() if (setting := self._get(key))
        }
        if tres is not None:
            weights["tres"] = tres.tres(weight, self.ignored)
        # What is the default depends on the release.
        if (kind.value == "priority/basic") if kind is not None else not weights:
            return None
        return Multifactor(Weights(**weights), **self._times, **self._flags)

    @property
    def _times(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if (half_life := self._get("PriorityDecayHalfLife")) is not None:
            found["half_life_s"] = half_life.time_s or inf
        if (max_age := self._get("PriorityMaxAge")) is not None:
            found["max_age_s"] = max_age.time_s or 1.0  # each job that waits has the greatest age
        if (period := self._get("PriorityCalcPeriod")) is not None:
            if not 0 < (period_s := period.time_s) < inf:
                raise period.mistake("a time, like 00:05:00")
            found["period_s"] = period_s
        if (reset := self._get("PriorityUsageResetPeriod")) is not None and reset.value.lower() != "none":
            found["reset_period"] = reset.value.lower()
            if found["reset_period"] not in RESET_PERIODS:
                raise reset.mistake(f"NONE, {', '.join(RESET_PERIODS).upper()}")
        if (dampening := self._get("FairShareDampeningFactor")) is not None:
            if not (factor := dampening.factor):
                raise dampening.mistake("a number of at least 1")
            found["dampening"] = factor
        return found

    @property
    def _flags(self) -> dict[str, Any]:
        small, flags = self._get("PriorityFavorSmall"), self._get("PriorityFlags")
        if small is not None and small.value.lower() not in YES + NO:
            raise small.mistake("YES or NO")
        names = set() if flags is None else {*self._words(flags, _FLAGS, _OTHER_FLAGS)}
        return {
            "favours_small": small is not None and small.value.lower() in YES,
            "fair_tree": not names & {"NO_FAIR_TREE", "DEPTH_OBLIVIOUS"},
            "relative_to_time": "SMALL_RELATIVE_TO_TIME" in names,
            "not_normalised": tuple(
                sorted({each for name in names for each in _NOT_NORMALISED.get(name, ())})
            ),
        }

    @property
    def enforces(self) -> tuple[str, ...]:
        """Raises InvalidFile."""
        setting = self._get("AccountingStorageEnforce")
        if setting is None:
            return ()
        words = self._words(setting, _ENFORCED, _OTHER_WORDS)
        return tuple(sorted({each for word in words for each in _ENFORCED[word]}))

    def _words(
        self, setting: PolicySetting, known: Collection[str], others: Mapping[str, str]
    ) -> Iterator[str]:
        """The words of a list, of which the `others` are not modelled. Raises InvalidFile."""
        for word in filter(None, map(str.strip, setting.value.split(","))):
            stated = word.partition("=")[0].lower()
            name = next((each for each in known if each.lower() == stated), None)
            if name is None:
                raise setting.mistake(f"a list of {', '.join(known)}")
            if name in others:
                self.ignored.add(setting._replace(value=name), others[name], f"{setting.key}={name}")
            yield name

    def _get(self, name: str) -> PolicySetting | None:
        return self.settings.get(name.lower())
