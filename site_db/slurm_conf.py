"""Nodes and partitions of a Slurm cluster, from `slurm.conf`, or from what `scontrol show node`, `scontrol
show partition` and `sinfo --json` print.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.node_request import Node, Partition
from site_db.files.access import Memory
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.keys import KINDS, IgnoredKeys
from site_db.slurm.lines import Line, lines_of, with_defaults
from site_db.slurm.nodes import hardware_of, hosts, licences_of, order_of_service, partition_of, takes_no_jobs
from site_db.slurm.topology import connected

BYTES_OF_A_NODE = 1_000
EXPECTED = (
    "lines like 'NodeName=n[01-40] CPUs=64 RealMemory=256000' (slurm.conf, or scontrol show node, also with "
    "--json)"
)
_DEEPEST = 40
"""How deep sets of nodes may contain one another."""


def read_cluster(path: Path, modelled: Collection[str] = ()) -> SiteNodes:
    """The nodes and partitions of a `slurm.conf`, or of the output of `scontrol show node`, `scontrol show
    partition` (both also with `--json`) or `sinfo --json`.

    A node has CPUs (or Boards, Sockets, CoresPerSocket and ThreadsPerCore) less those of CoreSpecCount or
    CpuSpecList, RealMemory less MemSpecLimit, Gres with types, and Features. Nodes in a state like DOWN or
    DRAIN, also by DownNodes, and those that do not answer are `down`. `NodeName=DEFAULT` and
    `PartitionName=DEFAULT` set defaults; `Include` is followed; a NodeSet stands for its nodes. Memory counts
    unless SelectTypeParameters lacks it. With SelectType=select/linear, or in a partition with
    Exclusive=NODE or OverSubscribe=EXCLUSIVE, jobs take whole nodes. A DefaultTime above MaxTime does not
    count, as in Slurm. Licenses are resources of the whole site. Nodes in state FUTURE are left out. `notes`
    says what else is ignored (`IgnoredKeys`, `order_of_service`), except keys that are `modelled` elsewhere.
    Raises InvalidFile with file and line.
    """
    notes: list[str] = []
    found = _Found(Memory(path), IgnoredKeys(modelled))
    for kind, whole, line in with_defaults(lines_of(path, notes), KINDS):
        found.add(kind, whole, line)
    if not found.nodes:
        raise InvalidFile(f"{path}: there is no node; expected {EXPECTED}")
    return connected(found.cluster(notes), path, found.settings)


@dataclass
class _Found:
    memory: Memory
    ignored: IgnoredKeys
    nodes: dict[str, Node] = field(default_factory=dict)
    threads: dict[str, int] = field(default_factory=dict)
    partitions: dict[str, tuple[Partition, Line]] = field(default_factory=dict)
    sets: dict[str, list[Line]] = field(default_factory=dict)
    """The lines of each NodeSet."""
    future: set[str] = field(default_factory=set)
    """Nodes that are not there yet."""
    down: list[tuple[str, Line]] = field(default_factory=list)
    """Lists of nodes that take no jobs, and where that is said."""
    settings: dict[str, Line] = field(default_factory=dict)
    """The settings of the site."""
    _members: dict[str, frozenset[str]] = field(default_factory=dict)
    """The members of NodeSets."""

    def add(self, kind: str, whole: Line, line: Line) -> None:
        if not kind:
            self.ignored.check_first_word(line)
            self.settings.update(dict.fromkeys(line.values, line))
            return
        name = line.values[kind]
        self.ignored.note(kind, whole, line)
        if line.sets_defaults(kind):
            return
        if kind == "nodename":
            self._add_nodes(whole)
        elif kind == "partitionname":
            if not name:
                raise line.mistake("PartitionName is empty; expected a name, like PartitionName=batch")
            if name in self.partitions:
                raise line.mistake(
                    f"partition {name} is defined twice; expected one line PartitionName={name}"
                )
            self.partitions[name] = partition_of(whole, self.ignored), whole
        elif kind == "nodeset":
            for each in hosts(line, name):
                self.sets.setdefault(each, []).append(line)
        elif takes_no_jobs(line.get("state") or "DOWN"):
            self.down.append((name, line))

    def _add_nodes(self, line: Line) -> None:
        names = hosts(line, line.values["nodename"])
        self.memory.take(BYTES_OF_A_NODE * len(names))
        if line.get("state").upper().startswith("FUTURE"):
            self.future.update(names)
            return
        node, threads = hardware_of(line, self.ignored)
        for name in names:
            if name in self.nodes:
                raise line.mistake(f"node {name} is defined twice")
            self.nodes[name], self.threads[name] = node, threads
        if takes_no_jobs(line.get("state")):
            self.down.append((line.values["nodename"], line))

    def cluster(self, notes: list[str]) -> SiteNodes:
        members: dict[str, set[str]] = {name: {*node.partitions} for name, node in self.nodes.items()}
        for name, (_, line) in self.partitions.items():
            for node in self._expanded(line.get("nodes"), line, f"partition {name} lists"):
                members[node].add(name)
        reason = "jobs that request it alone are refused when they arrive"
        have_nodes = frozenset[str]().union(*members.values())
        notes += (f"partition {x} has no nodes; {reason}" for x in self.partitions if x not in have_nodes)
        down = {node for text, line in self.down for node in self._expanded(text, line, "DownNodes lists")}
        is_linear = self._setting("selecttype").endswith("linear")
        partitions = {
            name: replace(partition, is_exclusive=True) if is_linear else partition
            for name, (partition, _) in self.partitions.items()
        }
        has_memory = "memory" in (self._setting("selecttypeparameters") or "memory")
        return SiteNodes(
            {name: replace(node, partitions=frozenset(members[name])) for name, node in self.nodes.items()},
            partitions,
            self.threads,
            has_memory=has_memory and any(node.memory_mib > 1 for node in self.nodes.values()),
            site_resources=licences_of(self.settings["licenses"]) if "licenses" in self.settings else {},
            down=frozenset(down),
            notes=(*notes, *self.ignored.all(), *order_of_service(self.settings, self.ignored.modelled)),
        )

    def _setting(self, key: str) -> str:
        return self.settings[key].values[key].lower() if key in self.settings else ""

    def _expanded(self, text: str, line: Line, who: str, within: tuple[str, ...] = ()) -> frozenset[str]:
        found: set[str] = set()
        for name in hosts(line, text):
            if name in self.sets:
                found |= self._of_set(name, within)
            elif name in self.nodes:
                found.add(name)
            elif name.upper() == "ALL":
                found |= self.nodes.keys()
            elif name not in self.future:
                raise line.mistake(f"{who} node {name}, which is not defined; add NodeName={name}")
        self.memory.take(BYTES_OF_A_NODE / 10 * len(found))
        return frozenset(found)

    def _of_set(self, name: str, within: tuple[str, ...]) -> frozenset[str]:
        if name not in self._members:
            line = self.sets[name][0]
            if name in self.nodes:
                raise line.mistake(f"NodeSet={name} has the name of a node; expected another name")
            if name in within or len(within) > _DEEPEST:
                raise line.mistake(f"NodeSet={name} contains itself, or too many sets in one another")
            found: frozenset[str] = frozenset()
            for each in self.sets[name]:
                feature, who = each.get("feature", "features"), f"NodeSet={name} lists"
                found |= self._expanded(each.get("nodes"), each, who, (*within, name))
                found |= {node for node, has in self.nodes.items() if feature in has.features}
            self._members[name] = found
        return self._members[name]
