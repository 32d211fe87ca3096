"""The settings of a controller in simulated time: our own, those of an operator's files that are kept,
a list of all others, and whether running daemons have them, which are asked before time passes.

Which settings of `slurm.conf` are passed to a controller, and which a release refuses or ignores, so that
all of it is known before an upgrade (Slurm names one setting at a time), is listed in `slurm_conf.toml`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scheduler import UserError
from scheduler.messages import counted
from sil.slurm.protocol.releases import Release
from site_db.files.input_errors import InvalidFile
from site_db.slurm.lines import Pair, lines_of

OF_CLUSTER = ""
"""The kind of settings of the whole cluster; those of nodes and so on have the first key of their lines."""
OF_ACCOUNTING = {"accountingstorageenforce", "accountingstoragetres"}
"""Settings that need accounting."""
LAST = "26.05"
"""The last release that is known here."""


def _by_name(listed: Mapping[str, str]) -> dict[str, str]:
    """The heading under which each name, in small letters, is listed."""
    return {name: heading for heading, names in listed.items() for name in names.lower().split()}


_LISTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("slurm_conf.toml").read_text())
_KEPT, _LEFT_OUT = (
    {kind: _by_name(listed) for kind, listed in _LISTS[what].items()} for what in ("kept", "left_out")
)
"""By kind and name: since when a key is kept, and why another is left out."""
_REFUSED, _IGNORED = _by_name(_LISTS["refused"]), _by_name(_LISTS["ignored"])
"""The first release that refuses or ignores a key, or one value or option of it."""
_REMARKS: Mapping[str, str] = _LISTS["remarks"]
NOT_READ = frozenset(_LISTS["files"]["not_read"].split())
"""Files that Slurm looks for in the folder of `slurm.conf`."""


def kept(release: Release) -> Mapping[str, set[str]]:
    """The keys that pass to a Slurm of a release, by kind, in small letters."""
    return {kind: _names(keys, release) for kind, keys in _KEPT.items()}


def _names(since: Mapping[str, str], release: Release) -> set[str]:
    return {name for name, first in since.items() if release.is_since(first)}


def is_known(kind: str, name: str) -> bool:
    """Whether a release has a key (in small letters) of this kind."""
    return name in _LEFT_OUT.get(kind, {}) or name in _KEPT[kind]


def why_left_out(kind: str, name: str, release: Release) -> str:
    """Why a key (in small letters) that is not kept is left out."""
    if why := _LEFT_OUT.get(kind, {}).get(name):
        return why
    if _KEPT[kind].get(name):
        return f"Slurm {release.name} does not know it"
    return "it is not listed as one that is safe to pass on"


class UnsupportedSetting(NamedTuple):
    """A setting of a line of the operator's file that a release does not take."""

    where: str
    text: str
    is_refused: bool
    """Whether the controller does not start with it; else it is ignored."""
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f" ({self.remark})" if self.remark else "")


def gone(pair: Pair, where: str, release: Release) -> list[UnsupportedSetting]:
    """A setting that is refused or ignored as a whole, or those of its options that are."""
    refused, ignored = _names(_REFUSED, release), _names(_IGNORED, release)
    options = {option.strip().partition("=")[0]: option.strip() for option in pair.value.split(",")}
    names = (
        (f"{pair.name}={value.lower()}", text)
        for option, text in options.items()
        for value in dict.fromkeys((option, option.rpartition("/")[2]))  # as in job_submit/lua
    )
    found = [
        UnsupportedSetting(where, f"{pair.key}={text}", name in refused, _REMARKS.get(name, ""))
        for name, text in names
        if name in refused | ignored
    ]
    if not found and pair.name in refused | ignored:
        text, remark = f"{pair.key}={pair.value}", _REMARKS.get(pair.name, "")
        found.append(UnsupportedSetting(where, text, pair.name in refused, remark))
    return found


def unknown(pair: Pair, where: str, release: Release) -> list[UnsupportedSetting]:
    """A key of none of the releases up to the last one that is known here."""
    return (
        []
        if release.series > LAST
        else [UnsupportedSetting(where, f"{pair.key}={pair.value}", True, "no such key")]
    )


def sentences(found: Iterable[UnsupportedSetting], release: Release) -> Iterator[str]:
    """What is refused, and what is ignored."""
    for is_refused, does in ((True, "refuses"), (False, "ignores")):
        listed = [str(each) for each in found if each.is_refused is is_refused]
        if listed:
            yield f"Slurm {release.name} {does} {counted(len(listed), 'setting')}: {'; '.join(listed)}"


class Surroundings(NamedTuple):
    """Where a controller runs."""

    folder: str
    user: str
    controller_port: int | str
    node_port: int | str
    accounting_port: int | None = None
    munge: Path | None = None
    """The socket of its munge."""
    plugins: Path | None = None
    """The folder of the plug-ins, unless Slurm knows it."""


def credential_settings(munge: Path | None) -> Iterator[Pair]:
    """The settings of a daemon's credentials; with munge's socket, or without it."""
    yield Pair("AuthType", "auth/none" if munge is None else "auth/munge")
    if munge is not None:
        yield Pair("AuthInfo", f"socket={munge}")


def own_lines(name: str, **values: object) -> Iterator[Pair]:
    """The settings in one of our own files, with values in place of their names in braces."""
    for line in Path(__file__).with_name(name).read_text().splitlines():
        if not line.startswith("#"):
            key, _, value = line.partition("=")
            yield Pair(key, value.format(**values))


def own_settings(here: Surroundings) -> Iterator[Pair]:
    """What takes the place of settings that are not kept."""
    has_accounting = here.accounting_port is not None
    yield from own_lines(
        "own_slurm.conf",
        **here._asdict(),
        credential="none" if here.munge is None else "munge",
        accounting="slurmdbd" if has_accounting else "none",
    )
    if here.plugins is not None:
        yield Pair("PluginDir", str(here.plugins))
    if has_accounting:
        yield Pair("AccountingStorageHost", "127.0.0.1")
        yield Pair("AccountingStoragePort", str(here.accounting_port))
        if here.munge is not None:
            yield Pair("AccountingStoragePass", str(here.munge))
    yield from credential_settings(here.munge)


_LINE = re.compile(r"(\w+)(?:\[\d+\])?\s+= (.*)")
_PATH = re.compile(r"(?<![\w/])/[^\s,;:|()\"']*")
_OF_PROGRAMS = re.compile(r"prog$|program$|prolog|epilog|script$|plugstack$", re.IGNORECASE)
_NO_PROGRAM = re.compile(r"(timeout|flags|time|^archivejobscript)$", re.IGNORECASE)
"""Matches settings that name no program: whether scripts are archived is yes or no."""
_OF_HOSTS = re.compile(r"(host|addr|machine|controller)$", re.IGNORECASE)
_NONE = ("", "(null)", "none", "N/A")
_ONLY_READ = ("plugindir", "slurm_conf")
"""Slurm's plug-ins; and what `sacctmgr` prints as the file that it would read by default."""
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|::1|[\w.-]+\((?:127\.[\d.]+|::1|localhost)\)")


def check_view(name: str, shown: str, folder: str, own: Iterable[Pair]) -> None:
    """Check the settings of a daemon, as `scontrol show config` or `sacctmgr show config` print them: paths
    are in `folder`, hosts are this computer, programs are `own`. Raises UserError."""
    ours = {pair.name: pair.value for pair in own}
    settings = [(match[1], match[2].strip()) for match in map(_LINE.fullmatch, shown.splitlines()) if match]
    if not settings:
        raise UserError(f"{name} does not show its configuration, so that nothing proves what it would touch")
    for key, value in settings:
        if value in _NONE or key.lower() in _ONLY_READ or value == ours.get(key.lower()):
            continue
        outside = [
            path
            for path in _PATH.findall(value)
            if not f"{path}/".startswith(f"{folder}/") or ".." in path.split("/")
        ]
        is_program = _OF_PROGRAMS.search(key) and not _NO_PROGRAM.search(key)
        if outside or is_program or (_OF_HOSTS.search(key) and _LOOPBACK.fullmatch(value) is None):
            raise UserError(
                f"{name} has {key}={value}, which does not belong to the run, so nothing was run; remove it "
                f"from a copy of slurm.conf, and report this as a fault of sil"
            )


def check_addresses(shown: str) -> None:
    """Check the addresses of nodes, a line each. Raises UserError."""
    for address in shown.split():
        if _LOOPBACK.fullmatch(address) is None:
            raise UserError(f"slurmctld has a node at {address}, which is not this computer; nothing was run")


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
"""Matches characters among which is what ends a line for Slurm, and not here."""
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


class KeptSettings:
    """The settings of files that are kept for a Slurm of this release; others are added to `replaced`."""

    def __init__(self, release: Release) -> None:
        self._release = release
        self._kept = kept(release)
        self.replaced: list[Replaced] = []
        self.gone: list[UnsupportedSetting] = []
        self.cannot_start = False
        """Whether the release refuses settings that are kept."""
        self.notes: list[str] = []

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
        """What says the same as Exclusive, a key of 26.05, in addition to `others`, in earlier releases."""
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
