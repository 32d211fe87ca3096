"""The settings of an operator's configuration files that are kept, and the list of all others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sil.slurm.protocol.releases import Release
from sil.slurm.settings.kept import OF_CLUSTER, Gone, gone, is_known, kept, unknown, why_left_out
from sil.slurm.settings.own import Surroundings, own_settings
from site_db.files.input_errors import InvalidFile
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
_EXCLUSIVE = {
    **dict.fromkeys(("NO", "NONE"), ("OverSubscribe", "NO")),
    "NODE": ("OverSubscribe", "EXCLUSIVE"),
    "USER": ("ExclusiveUser", "YES"),
    "TOPO": ("ExclusiveTopo", "YES"),
}
_WITH_KNOWN_KEYS = (OF_CLUSTER, "nodename", "partitionname", "downnodes", "nodeset")
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
    """The settings of files that are kept for a Slurm of this release; others are added to `replaced`."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._kept = kept(release)
        self.replaced: list[Replaced] = []
        self.gone: list[Gone] = []
        self.cannot_start = False
        """Whether the release refuses settings that are kept."""
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

    def _exclusive(self, pair: Pair, where: str, others: Mapping[str, str]) -> dict[str, str]:
        """What states the same as Exclusive, a key of 26.05, beside `others` in earlier releases."""
        key, value = _EXCLUSIVE.get(pair.value.upper(), ("", ""))
        if key.lower() not in self._kept["partitionname"]:
            release = self._release.name
            raise InvalidFile(
                f"{where}: Slurm {release} has nothing like {pair}; change it in a copy of the file"
            )
        old = others.get(key.lower())
        new = old if value == "NO" and old and not old.upper().endswith("=EXCLUSIVE") else f"{key}={value}"
        self.replaced.append(Replaced(where, str(pair), new, "Exclusive is a key of 26.05"))
        return {key.lower(): new}

    def _note_gone(self, kind: str, pair: Pair, where: str) -> None:
        found = []
        if kind in (OF_CLUSTER, pair.name):
            found = gone(pair, where, self._release)
        if not found and kind in _WITH_KNOWN_KEYS and not is_known(kind, pair.name):
            found = unknown(pair, where, self._release)
        self.gone += found
        self.cannot_start |= pair.name in self._kept[kind] and any(each.is_refused for each in found)

    def _of(self, kind: str, pairs: Sequence[Pair], where: str) -> dict[str, str]:
        found: dict[str, str] = {}
        exclusive: Pair | None = None
        for pair in pairs:
            if _UNSEEN.search(pair.value):
                raise InvalidFile(f"{where}: {pair.key} has a control character; remove it")
            if kind == "partitionname" and pair.name == "exclusive" and pair.name not in self._kept[kind]:
                exclusive = pair
                continue
            was, became, why = f"{pair.key}={pair.value}", str(pair), ""
            self._note_gone(kind, pair, where)
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
        return found if exclusive is None else found | self._exclusive(exclusive, where, found)
