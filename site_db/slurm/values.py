"""Settings of a policy with their values: counts, times, amounts and weights of TRES, and parameters of
schedulers; and those that are not modelled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import NamedTuple

from scheduler.messages import abbreviated
from scheduler.priority.policy import TRES, BackfillParameters, PreemptMode
from site_db.files.formats import is_decimal, is_whole
from site_db.files.input_errors import MAX_VALUE, InvalidFile, quoted, shortened
from site_db.slurm.lines import Line
from site_db.slurm.output import MIB_OF, NO_LIMIT, UNITS, amount_of, duration_s, limit_s, memory_mib

_NAME = re.compile(r"cpu|mem|node|energy|billing|vmem|pages|(?:gres|license|fs|bb|ic)/\S+", re.IGNORECASE)
_WEIGHT = re.compile(r"(.*?)([KMGT]?)", re.IGNORECASE)
_SIMILAR = 0.8


class PolicySetting(NamedTuple):
    """A setting of something, like "account physics", and its line."""

    line: Line
    of: str
    key: str
    value: str

    def mistake(self, expected: str) -> InvalidFile:
        return self.line.mistake(f"{self.key} of {self.of} is {quoted(self.value)}; expected {expected}")

    @property
    def whole(self) -> int | None:
        """A whole number; None for no limit. Raises InvalidFile."""
        if self.value.lower() in NO_LIMIT:
            return None
        if not is_whole(self.value) or int(self.value) > MAX_VALUE:
            raise self.mistake("a whole number, or -1 for none")
        return int(self.value)

    @property
    def factor(self) -> float:
        """A number of at least 0. Raises InvalidFile."""
        if not is_decimal(self.value) or not 0 <= float(self.value) <= MAX_VALUE:
            raise self.mistake("a number of at least 0")
        return float(self.value)

    @property
    def time_s(self) -> float:
        """Seconds, perhaps 0; infinite for no limit. Raises InvalidFile."""
        try:
            return 0.0 if duration_s(self.value, 60) == 0 else limit_s(self.value)
        except ValueError as error:
            raise self.line.mistake(f"{self.key} of {self.of} is {error}") from None

    def preempt_mode(self, ignored: NotModelled) -> PreemptMode | None:
        """How jobs are preempted; None if that is not said. Raises InvalidFile."""
        found = None
        for word in filter(None, map(str.strip, self.value.upper().split(","))):
            if word in PreemptMode.__members__:
                found = PreemptMode[word]
            elif word == "GANG":  # for jobs that are suspended, the GANG that lets them continue is modelled
                if "SUSPEND" not in self.value.upper():
                    reason = "jobs of a partition do not share CPUs by turns"
                    ignored.add(self, reason, f"PreemptMode={word}")
            elif word in ("PRIORITY", "WITHIN"):
                ignored.add(self, f"{word} is not modelled", f"PreemptMode={word}")
            elif word != "CLUSTER":
                raise self.mistake("a list of OFF, CANCEL, REQUEUE, SUSPEND, GANG, PRIORITY and WITHIN")
        return found

    def check_qos(self, name: str, known: Collection[str] | None) -> None:
        """Raise InvalidFile for a QOS that is not known, if it is known which there are."""
        if known is not None and name not in known:
            raise self.line.mistake(
                f"{self.key} of {self.of} has {quoted(name)}, which is not defined; expected one of "
                f"{abbreviated(sorted(known))}"
            )

    def tres(self, number: Callable[[str, str], float], ignored: NotModelled) -> dict[str, float]:
        """The `number` of each TRES in a list, as far as they are modelled. Raises InvalidFile."""
        found: dict[str, float] = {}
        for part in filter(None, map(str.strip, self.value.split(","))):
            name, _, value = map(str.strip, part.partition("="))
            each = self._replace(key=f"{self.key}={name}", value=value)
            if not _NAME.fullmatch(name):
                raise self.mistake("TRES with numbers, like cpu=4,mem=8G,node=2,gres/gpu=1,license/matlab=1")
            if value == "-1":  # no limit
                continue
            try:
                n = number(name.lower(), value)
            except ValueError:
                raise each.mistake("a number of at least 0") from None
            if name.lower() == "mem" and not ignored.has_memory:
                ignored.add(each, "memory is no resource of the nodes (SelectTypeParameters)")
            elif name.lower() in TRES:
                found[name.lower()] = n
            else:
                ignored.add(each, f"limits and weights are those of {', '.join(TRES)}")
        return found


def amount(name: str, text: str) -> float:
    """The limit of a TRES; of memory, in MiB. Raises ValueError."""
    return memory_mib(text) if name == "mem" else amount_of(text, text)


def weight(name: str, text: str) -> float:
    """The weight of each unit of a TRES; of memory, of each MiB. Raises ValueError."""
    found = _WEIGHT.fullmatch(text)
    if found is None or not is_decimal(found[1]) or not 0 <= float(found[1]) <= MAX_VALUE:
        raise ValueError(text)
    return float(found[1]) / (MIB_OF if name == "mem" else UNITS)[found[2].upper()]


@dataclass
class NotModelled:
    """What the files of a policy say and the model leaves out."""

    has_memory: bool = True
    """Whether memory is a resource of the nodes."""
    others: list[str] = field(default_factory=list)
    """Further sentences."""
    _first: dict[str, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def add(self, setting: PolicySetting, reason: str, kind: str = "", how: str = "ignored") -> None:
        """A setting of a kind; without one, those of its key are alike."""
        kind, where = kind or setting.key, setting.line.where
        said = shortened(f"{'='.join(filter(None, (setting.key, setting.value)))} of {setting.of}", 120)
        self._first.setdefault(kind, f"{where}: {how}: {said}, because {reason}")
        self._counts[kind] += 1

    def add_unknown(self, setting: PolicySetting, known: Iterable[str]) -> None:
        """A key that is not known. Raises InvalidFile if it is similar to one that is."""
        names = {name.lower(): name for name in known}
        if similar := get_close_matches(setting.key.lower()[:40], names, 1, _SIMILAR):
            raise setting.line.mistake(
                f"{setting.of} has {setting.key}={setting.value}, which is no setting of Slurm; expected "
                f"{names[similar[0]]}"
            )
        self.add(setting, "it is not known")

    @property
    def sentences(self) -> tuple[str, ...]:
        """One of each kind of setting."""
        counted = (
            f"{said} ({n:,} such settings)" if (n := self._counts[kind]) > 1 else said
            for kind, said in self._first.items()
        )
        return (*self.others, *counted)


_PARAMETERS = {each.name for each in fields(BackfillParameters)}
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
    `has_nodes`, too. See <https://slurm.schedmd.com/sched_config.html>. Raises InvalidFile."""
    found, kind, listed = dict[str, int](), settings.get("schedulertype"), settings.get("schedulerparameters")
    if listed is not None:
        for word in filter(None, map(str.strip, listed.value.split(","))):
            key, _, value = word.partition("=")
            each, name = listed._replace(key=f"SchedulerParameters={key}", value=value), key.lower()
            if name == "max_switch_wait":
                if not has_nodes:
                    ignored.add(each, "it counts in the slurm.conf of the nodes, beside its topology.conf")
            elif name not in _PARAMETERS:
                ignored.add(each, "decisions take no time" if name in _OF_TIME else "it is not modelled")
            elif each.whole is None or not (name not in _MOST or 1 <= each.whole <= _MOST[name]):
                ignored.add(each, "it is not in Slurm's range, or switches a scheduler off")
            else:
                found[name] = each.whole
    if kind is not None and kind.value.lower() == "sched/builtin":
        ignored.add(kind, "only slurm_backfill has no backfilling then; in one partition, it is like fcfs")
        found["bf_max_job_test"] = 0
    return found
