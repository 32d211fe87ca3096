"""What is kept of an operator's configuration files, and the list of what is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sil.slurm.release import Release
from sil.slurm.settings.kept import OF_CLUSTER, kept, why_left_out
from sil.slurm.settings.own import Surroundings, own_settings
from site_db.files.given import InvalidFile
from site_db.slurm.lines import Pair, lines_of

LEFT_OUT = ""


@dataclass(frozen=True)
class Replaced:
    """A part of a line that is not as the operator has written it. `new` is empty if it is left out."""

    where: str
    old: str
    new: str
    why: str

    def __str__(self) -> str:
        became = f"became {self.new}" if self.new else "was left out"
        return f"{self.where}: {self.old} {became}: {self.why}"


_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
"""Among these is what ends a line for Slurm, and not here."""
_SHARES_OF_GPUS = re.compile(r"(^|,)(shard|mps)\b[^,]*")
_OURS = {
    pair.name: str(pair)
    for pair in own_settings(
        Surroundings("(a directory of the run)", "(the calling user)", "(free)", "(free)")
    )
    if pair.key not in ("AuthType", "CredType", "AccountingStorageType")
} | {
    **dict.fromkeys(("authtype", "authinfo", "credtype"), "(munge of the run, or none)"),
    **dict.fromkeys(("accountingstoragetype", "accountingstoragehost"), "(slurmdbd of the run, or none)"),
}
"""What takes the place of a setting, for people."""


class Selection:
    """What is kept of files for a Slurm of this release; what is not, is added to `replaced`."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._kept = kept(release)
        self.replaced: list[Replaced] = []
        self.notes: list[str] = []

    def leave_out(self, where: str, what: str, why: str) -> None:
        self.replaced.append(Replaced(where, what, LEFT_OUT, why))

    def of_file(self, path: Path) -> tuple[dict[str, str], list[str]]:
        """Settings by name in small letters, and lines of nodes, partitions and so on. Raises InvalidFile."""
        settings: dict[str, str] = {}
        records: list[str] = []
        for line in lines_of(path, self.notes):
            line.check_words()
            # Slurm takes all that follows the first key of a node, a partition and so on to belong to it.
            starts = (place for place, pair in enumerate(line.pairs) if pair.name in self._kept)
            first = next(starts, len(line.pairs))
            settings |= self._of(OF_CLUSTER, line.pairs[:first], line.where)  # the last one counts
            if record := line.pairs[first:]:
                records.append(" ".join(self._of(record[0].name, record, line.where).values()))
        return settings, [*filter(None, records)]

    def _of(self, kind: str, pairs: Sequence[Pair], where: str) -> dict[str, str]:
        found = {}
        for pair in pairs:
            if _UNSEEN.search(pair.value):
                raise InvalidFile(f"{where}: {pair.key} has a control character; remove it")
            was, became, why = f"{pair.key}={pair.value}", str(pair), ""
            if pair.name not in self._kept[kind]:
                why = why_left_out(kind, pair.name, self._release)
                became = _OURS.get(pair.name, LEFT_OUT) if kind == OF_CLUSTER else LEFT_OUT
            elif kind == "nodename" and was.upper() == "STATE=CLOUD":
                became, why = f"{pair.key}=UNKNOWN", "nodes do not save power"
            elif kind == "nodename" and pair.name == "gres" and _SHARES_OF_GPUS.search(pair.value):
                whole = _SHARES_OF_GPUS.sub("", pair.value).strip(",")
                became, why = f"{pair.key}={whole}" if whole else LEFT_OUT, "GPUs are not shared here"
            if why and became.lower() != was.lower():
                self.replaced.append(Replaced(where, was, became, why))
            if became and pair.name in self._kept[kind]:
                found[pair.name] = became
        return found
