"""What a controller says of itself in a run: its configuration, statistics, priorities, and why jobs waited.

Once an hour of simulated time, while there are jobs, it is asked with Slurm's own commands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sil.slurm.controller import Controller
from sil.slurm.daemons import CommandFailed
from sil.slurm.jobs.queries import reasons_of
from sil.slurm.settings.kept import OF_CLUSTER, kept

STATEMENTS = "controller.json"
"""In the folder of a run."""
EVERY_S = 3_600.0
DAY_S = 86_400.0
FIRST_S = 3_540.0
"""Just before midnight, when sdiag begins to count anew."""
FACTORS = {
    "Priority": "%Y", "Age": "%A", "Association": "%B", "Fair share": "%F", "Job size": "%J", "Nice": "%N",
    "Partition": "%P", "QOS": "%Q", "TRES": "%T",
}  # fmt: skip
"""Weighted, and how `sprio` calls them."""
_SECTIONS = ("Main schedule", "Backfilling")
_VIEWS = {
    "settings": ("scontrol", "show", "config"),
    "partitions": ("scontrol", "show", "partition", "--oneliner"),
    "qos": ("sacctmgr", "--parsable2", "--noheader", "show", "qos"),
}


@dataclass
class Statements:
    """Collected from a controller about the jobs of a log, which has their numbers."""

    controller: Controller
    has_accounting: bool
    days: dict[int, dict[str, int]] = field(default_factory=dict)
    """What `sdiag` counted on each day of the log; the last minute of a day is missing."""
    factors: dict[int, dict[str, int]] = field(default_factory=dict)
    """The weighted factors of each job that waited, when it was last asked."""
    reasons: dict[int, str] = field(default_factory=dict)
    """Why each job waited, when it was last asked."""
    has_priorities: bool = True

    def hear(self, numbers: Mapping[str, int], now_s: float) -> None:
        """Ask at a second of the log; `numbers` of jobs by the controller's names, none if none waits."""
        if numbers:
            self._hear_of_jobs(numbers)
        self.days[int(now_s // DAY_S)] = dict(_counters(self.controller.slurm("sdiag")))

    def _hear_of_jobs(self, numbers: Mapping[str, int]) -> None:
        for name, reason in reasons_of(self.controller).items():
            if name in numbers:
                self.reasons[numbers[name]] = reason
        if not self.has_priorities:
            return
        try:
            listed = self.controller.slurm("sprio", "-h", "-o", " ".join(("%i", *FACTORS.values())))
        except CommandFailed:  # there are no factors without priority/multifactor
            self.has_priorities = False
            return
        for line in listed.splitlines():
            name, *values = line.split()
            if name in numbers and len(values) == len(FACTORS):
                with suppress(ValueError):
                    self.factors[numbers[name]] = dict(zip(FACTORS, map(int, values), strict=True))

    def write(self, path: Path) -> None:
        found = {
            "views": views(self.controller, self.has_accounting),
            "days": self.days,
            "factors": self.factors,
            "reasons": self.reasons,
        }
        path.write_text(json.dumps(found), encoding="utf-8")


def views(controller: Controller, has_accounting: bool) -> dict[str, dict[str, str]]:
    """Settings that decide where and when jobs run, partitions and QOS, as the daemons have read them: by
    name, with values as Slurm prints them."""
    decide = {*kept(controller.installation.release)[OF_CLUSTER], "slurm_version"} - {"clustername"}
    found = {
        name: dict(_READERS[name](controller.slurm(*words)))
        for name, words in _VIEWS.items()
        if name != "qos" or has_accounting
    }
    return {
        name: {key: value for key, value in values.items() if name != "settings" or key.lower() in decide}
        for name, values in found.items()
    }


def _settings(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, is_pair, value = line.partition("=")
        if is_pair:
            yield key.strip(), value.strip()


def _partitions(text: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, text.splitlines()):
        words = line.split()
        name = words[0].partition("=")[2]
        for word in words[1:]:
            key, _, value = word.partition("=")
            yield f"{name}: {key}", value


def _qualities(text: str) -> Iterator[tuple[str, str]]:
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition("|")
        yield name, rest


_READERS = {"settings": _settings, "partitions": _partitions, "qos": _qualities}


def _counters(text: str) -> Iterator[tuple[str, int]]:
    """The numbers of the main scheduler and of backfilling, each with its name."""
    section = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.rpartition(":"))
        if not line[:1].isspace():
            section = next((title for title in _SECTIONS if line.startswith(title)), "")
        elif section and value.isdecimal():
            yield f"{section}: {name}", int(value)
