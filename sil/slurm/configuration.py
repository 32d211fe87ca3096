"""The configuration of a controller in simulated time: of an operator's `slurm.conf`, what decides where and
when jobs run is passed on; all else is left out or replaced (`sil.slurm.settings`), and listed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.messages import UserError, counted
from sil.slurm.protocol.releases import TESTED, Release
from sil.slurm.settings.selection import (
    LEFT_OUT,
    NOT_READ,
    OF_ACCOUNTING,
    OF_CLUSTER,
    KeptSettings,
    Replaced,
    Surroundings,
    UnsupportedSetting,
    gone,
    kept,
    own_settings,
    sentences,
    why_left_out,
)
from site_db.files.access import read_text
from site_db.files.input_errors import InvalidFile, quoted
from site_db.site_file.machine_names import expand, patterns
from site_db.slurm.lines import Pair, pairs_of
from site_db.slurm.nodes import gres_of
from site_db.slurm.topology import TOPOLOGY, YAML
from site_db.slurm.values import changed

_NOT_OF_YAML = re.compile(r"""[^\w\s\[\],.:#'"{}-]""")
"""Matches what topology.yaml must not contain: it is passed on as it is, and has names of nodes, switches and
blocks."""
LOOPBACK = "127.0.0.1"
_GIVEN = "as given with the scheduler's name"
_RELEASE = Release(22, 5, TESTED[0])


@dataclass(frozen=True)
class Configuration:
    """The lines that are kept, what was replaced, and other files for the controller's folder by name.

    A line has one setting, or all keys of a node, a partition and so on. `notes` are sentences.
    """

    lines: tuple[str, ...]
    replaced: tuple[Replaced, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    release: Release = _RELEASE
    """The release of Slurm for which it is."""

    @property
    def needs_accounting(self) -> bool:
        """Whether fair share, QOS or limits of associations are asked for, which are in Slurm's database."""
        values = self._values()
        shares = re.search(r"[1-9]", values.get("priorityweightfairshare", "")) is not None
        enforces = values.get("accountingstorageenforce", "").lower() not in ("", "0", "none")
        has_qos = values.get("preempttype", "").lower() == "preempt/qos" or any(
            "qos" in pair.name
            for line in self.lines
            if line.lower().startswith("partitionname=")
            for pair in pairs_of(line)
        )
        return enforces or has_qos or (values.get("prioritytype", "").endswith("multifactor") and shares)

    @property
    def cluster(self) -> str:
        """The name of the cluster, of which Slurm makes names of tables. Raises UserError."""
        name = self._values().get("clustername", "cluster").lower()
        if re.fullmatch(r"[\w.-]+", name, re.ASCII) is None:
            raise UserError(f"ClusterName is {quoted(name)}; expected letters, digits and _ . - only")
        return name

    @property
    def summary(self) -> tuple[str, ...]:
        """Sentences: the notes, and which settings are not as the operator has written them, but for those in
        the scheduler's name."""
        replaced = [item for item in self.replaced if item.why != _GIVEN]
        if not replaced:
            return self.notes
        keys = dict.fromkeys(item.old.partition("=")[0] for item in replaced)
        n = counted(len(replaced), "setting")
        return (*self.notes, f"left out of slurm.conf, or replaced: {', '.join(keys)} ({n}, see the report)")

    def text(self, here: Surroundings) -> str:
        """The content of `slurm.conf` for a controller. Raises UserError for the name of the cluster."""
        own, cluster = [str(pair) for pair in own_settings(here)], self.cluster
        lines: Iterable[str] = self.lines
        if here.accounting_port is None:
            lines = _without(lines, OF_ACCOUNTING)
        if "clustername" not in self._values():
            own.append(f"ClusterName={cluster}")
        # Nodes come last, after the settings that tell how to read them.
        return "\n".join((*own, *(_with_address(line) if _is_of_nodes(line) else line for line in lines), ""))

    def with_settings(self, text: str, release: Release | None = None) -> Configuration:
        """A copy with other settings, like `SchedulerParameters=bf_window=2880 PriorityType=priority/basic`,
        for a Slurm of this release, or else that of the configuration.

        Options of SchedulerParameters are given one by one, and the others stay; a setting without a value is
        left out. Raises UserError."""
        found = replace(self, release=release or self.release)
        for pair in pairs_of(text):
            if not pair.key:
                raise UserError(
                    f"'{pair.value}' in '{text}' is no setting of slurm.conf; expected Key=value, like "
                    f"SchedulerParameters=bf_window=2880"
                )
            found = found._with_setting(pair)
        return found

    def _with_setting(self, pair: Pair) -> Configuration:
        key, name, value = pair.key, pair.name, pair.value
        kinds = kept(self.release)
        if name in kinds:
            raise UserError(
                f"{key} cannot be set with the scheduler's name; change it in a copy of slurm.conf"
            )
        if name not in kinds[OF_CLUSTER]:
            why = why_left_out(OF_CLUSTER, name, self.release)
            raise UserError(f"{key} cannot be set: {why}; leave it out")
        if refused := [each for each in gone(pair, _GIVEN, self.release) if each.is_refused]:
            raise UserError(next(sentences(refused, self.release)))
        old = self._values().get(name)
        value = changed(name, old or "", value)
        new = str(Pair(key, value)) if value else LEFT_OUT
        noted = () if old is None else (Replaced("slurm.conf", f"{key}={old}", new, _GIVEN),)
        lines = ((new,) if new else ()) + (*_without(self.lines, {name}),)
        return replace(self, lines=lines, replaced=(*self.replaced, *noted))

    def _values(self) -> dict[str, str]:
        pairs = (pair for line in self.lines if not _OF_A_LINE.match(line) for pair in pairs_of(line))
        return {pair.name: pair.value for pair in pairs}


_OF_A_LINE = re.compile(r"(NodeName|PartitionName|DownNodes|NodeSet)=", re.IGNORECASE)


def _is_of_nodes(line: str) -> bool:
    return re.match(r"NodeName=(?!DEFAULT(?:\s|$))", line, re.IGNORECASE) is not None


def _with_address(line: str) -> str:
    """A line of a node with its address. Builds without --enable-multiple-slurmd take neither a port of a
    node nor a host name that nodes share; before 24.11 they want an address for each node."""
    nodes = next(pair.value for pair in pairs_of(line) if pair.name == "nodename")
    return f"{line} NodeAddr={','.join([LOOPBACK] * len(expand(patterns(nodes))))}"


def _without(lines: Iterable[str], names: Collection[str]) -> Iterator[str]:
    """Lines without some settings, by name in small letters; lines of nodes and partitions may have keys that
    are called the same."""
    for line in lines:
        if _OF_A_LINE.match(line) or not {pair.name for pair in pairs_of(line)} <= {*names}:
            yield line


def settings_gone(path: Path, release: Release) -> list[UnsupportedSetting]:
    """What this release refuses or ignores of an operator's `slurm.conf`. Raises InvalidFile."""
    selection = KeptSettings(release)
    selection.of_file(path)
    return selection.gone


def read_configuration(path: Path, release: Release = _RELEASE) -> Configuration:
    """An operator's `slurm.conf` with all that it includes, for a Slurm of this release. Raises
    InvalidFile."""
    selection = KeptSettings(release)
    settings, records = selection.of_file(path)
    if not any(map(_is_of_nodes, records)):
        raise InvalidFile(f"{path}: there is no node; expected lines like 'NodeName=n[01-40] CPUs=64'")
    refused = [*sentences(selection.gone, release)]
    if selection.cannot_start:
        raise InvalidFile(f"{'. '.join(refused)}. Change what is refused in a copy of {path}")
    selection.notes += refused
    found = Configuration((*settings.values(), *records), release=release)
    values = found._values()
    if not found.needs_accounting:
        for name in sorted(OF_ACCOUNTING & values.keys()):
            selection.replaced.append(Replaced(str(path), settings[name], LEFT_OUT, "there is no accounting"))
    files = {"gres.conf": gres_conf(records), **dict(_topology(path, selection, release))}
    if len(files) == 1 and values.get("topologyplugin", "").lower() == "topology/tree":
        raise InvalidFile(
            f"{path}: TopologyPlugin=topology/tree needs topology.conf beside it; add that file"
        )
    beside = sorted(name for name in NOT_READ - files.keys() if (path.parent / name).is_file())
    if beside:
        selection.notes.append(f"files beside {path} that have no effect: {', '.join(beside)}")
    return replace(found, replaced=(*selection.replaced,), files=files, notes=(*selection.notes,))


def _topology(path: Path, selection: KeptSettings, release: Release) -> Iterator[tuple[str, str]]:
    """The file of the operator's folder, if there is one, that says how nodes are connected. Raises
    InvalidFile."""
    names = [YAML] if release.is_since("25.05") else []
    for file in (path.parent / name for name in (*names, TOPOLOGY)):
        if file.is_file() and file.name == TOPOLOGY:
            yield TOPOLOGY, "\n".join((*selection.of_file(file)[1], ""))
        elif file.is_file():
            text = read_text(file)
            if (strange := _NOT_OF_YAML.search(text)) is not None:
                where = f"{file}, line {text.count(chr(10), 0, strange.start()) + 1}"
                raise InvalidFile(
                    f"{where}: there is {quoted(strange[0])}; expected names, numbers and lists"
                )
            yield YAML, text
            return


OWN = (
    "ClusterName=testbed",
    "SchedulerType=sched/backfill",
    "PriorityType=priority/basic",
    "MaxJobCount=1000000",
)
"""The lines of each configuration that is made."""


def configuration_of(n_nodes: int, settings: Iterable[str] = ()) -> Configuration:
    """Slurm's own defaults, with backfilling, for identical nodes n1, n2 and so on, of which jobs take
    whole ones. `settings` are further lines."""
    names = f"n[1-{n_nodes}]" if n_nodes > 1 else "n1"
    lines = (
        *OWN,
        "SelectType=select/linear",
        *settings,
        f"NodeName={names} CPUs=1 RealMemory=1000 State=UNKNOWN",
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    )
    return Configuration(lines)


def gres_conf(lines: Iterable[str]) -> str:
    """`gres.conf` for the nodes' generic resources: counted, without files."""
    found = ["AutoDetect=off"]
    for line in filter(_is_of_nodes, lines):
        values = {pair.name: pair.value for pair in pairs_of(line)}
        for _, name, types, count in gres_of(values.get("gres", "")):
            kind = {"Type": types[0]} if types else {}
            words = {"NodeName": values["nodename"], "Name": name, **kind, "Count": count}
            found.append(" ".join(str(Pair(*word)) for word in words.items()))
    return "\n".join((*found, ""))
