"""The switches or blocks that connect a site's nodes, from `topology.conf` or `topology.yaml`.

<https://slurm.schedmd.com/topology.conf.html>
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler.messages import abbreviated, counted
from scheduler.node_resources.topology import Topology
from site_db.files.formats import is_whole
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.lines import DEEPEST, Line, lines_of
from site_db.slurm.nodes import hosts

TOPOLOGY, YAML = "topology.conf", "topology.yaml"
_KEYS = {
    "tree": {"switchname": "SwitchName Nodes Switches LinkSpeed"},
    "block": {"blockname": "BlockName Nodes", "blocksizes": "BlockSizes"},
}
"""The keys of a line by the first one, in small letters, for each plug-in that is modelled."""
_FLAT = ("", "none", "default", "flat")
_MAX_WAIT = re.compile(r"max_switch_wait=(\d{1,9})(?![^,])", re.IGNORECASE)


def connected(cluster: SiteNodes, path: Path, settings: Mapping[str, Line]) -> SiteNodes:
    """The nodes of a `slurm.conf` with their topology, if it has one. Raises InvalidFile."""
    said = {key: line.get(key) for key, line in settings.items()}
    kind = said.get("topologyplugin", "").lower().removeprefix("topology/")
    file, parameters, notes = path.parent / YAML, said.get("topologyparam", "").lower(), list[str]()
    lines: Iterable[Line] = ()
    if file.is_file():  # then Slurm reads nothing else
        from site_db.slurm.topology_yaml import topologies  # most sites have none

        of_cluster, *others = topologies(file)
        kind, lines = of_cluster.kind, of_cluster.lines
        ignored = f"{of_cluster.where}: ignored: {kind} ({of_cluster.name})"
        if others:
            names = f"{counted(len(others), 'further one')} ({abbreviated([x.name for x in others])})"
            notes.append(
                f"{others[0].where}: ignored: {names}: all partitions have topology {of_cluster.name}"
            )
    elif (file := path.parent / TOPOLOGY).is_file() and kind in _KEYS:
        lines = lines_of(file, notes)
    if kind in _FLAT:
        return replace(cluster, notes=(*cluster.notes, *notes))
    if file.name == TOPOLOGY:
        ignored = f"{settings['topologyplugin'].where}: ignored: TopologyPlugin=topology/{kind}"
    if kind not in _KEYS or not file.is_file():
        why = f"there is no {TOPOLOGY} beside it" if kind in _KEYS else "only tree and block are modelled"
        notes.append(f"{ignored}, because {why}: jobs may have any nodes together")
        return replace(cluster, notes=(*cluster.notes, *notes))
    if "dragonfly" in parameters:
        notes.append(f"{ignored} with TopologyParam=dragonfly: jobs are not spread over leaf switches")
    found, wait = _Reader(kind), _MAX_WAIT.search(said.get("schedulerparameters", ""))
    for line in lines:
        found.add(line)
    topology = replace(
        found.topology(file),
        is_optional=kind == "tree" and "topooptional" in parameters,
        max_wait_s=Topology.max_wait_s if wait is None else float(wait[1]),
    )
    leaves = found.leaf_of(cluster.nodes, file.name, notes)
    nodes = {name: replace(node, switch=leaves.get(name, "")) for name, node in cluster.nodes.items()}
    return replace(cluster, nodes=nodes, topology=topology, notes=(*cluster.notes, *notes))


@dataclass
class _Reader:
    """By name, the lines with `nodes`, of leaf switches or base blocks, and those of the switches `above`."""

    kind: str
    nodes: dict[str, Line] = field(default_factory=dict)
    above: dict[str, Line] = field(default_factory=dict)
    sizes: Line | None = None
    _found: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """The level of a switch, and the places of its leaves."""

    def add(self, line: Line) -> None:
        """Raises InvalidFile."""
        line.check_words()
        first, known = line.pairs[0], _KEYS[self.kind]
        keys = " ".join(known.values()) if first.name not in known else known[first.name]
        if other := next((x for x in line.pairs if x.name not in keys.lower().split()), None):
            raise line.mistake(f"{other.key} is no key of topology/{self.kind}; expected one of {keys}")
        if first.name == "blocksizes":
            self.sizes = line
        elif first.value in self.nodes or first.value in self.above:
            raise line.mistake(f"{first.key}={first.value} is defined twice; expected one line")
        elif {"nodes", "switches"} <= line.values.keys():
            raise line.mistake(f"{first.key}={first.value} has Nodes and Switches; expected one of them")
        else:
            (self.above if "switches" in line.values else self.nodes)[first.value] = line

    def topology(self, file: Path) -> Topology:
        """Raises InvalidFile."""
        if not self.nodes:
            raise InvalidFile(f"{file}: it connects no nodes; expected lines with Nodes=")
        if self.kind == "block":
            return Topology.of_blocks([*self.nodes], self._block_sizes())
        self._found = {name: (0, frozenset({x})) for x, name in enumerate(self.nodes)}
        return Topology((*self.nodes,), tuple(self._switch(name, line) for name, line in self.above.items()))

    def _switch(self, name: str, line: Line, seen: tuple[str, ...] = ()) -> tuple[int, frozenset[int]]:
        if name in self._found:
            return self._found[name]
        if name not in self.above:
            raise line.mistake(f"switch {name} below {seen[-1]} is not defined; add SwitchName={name}")
        line = self.above[name]
        if name in seen or len(seen) > DEEPEST:
            raise line.mistake(f"switch {name} is above itself; expected a tree")
        below = [self._switch(each, line, (*seen, name)) for each in hosts(line, line.get("switches"))]
        leaves = frozenset[int]().union(*(each for _, each in below))
        self._found[name] = 1 + max(level for level, _ in below), leaves
        return self._found[name]

    def _block_sizes(self) -> list[int]:
        """The sizes of base blocks and of those with some of them, in nodes. Raises InvalidFile."""
        if self.sizes is None:
            first = next(iter(self.nodes.values()))
            sizes = [len(hosts(first, first.get("nodes"))) << level for level in range(5)]
        else:
            words = self.sizes.get("blocksizes").split(",")
            sizes = [int(word) if is_whole(word) and len(word) < 10 else 0 for word in words]
            if 0 in sizes or any(x % sizes[0] or (x // sizes[0]).bit_count() != 1 for x in sizes):
                expected = "numbers of nodes, each the first one times a power of two"
                raise self.sizes.mistake(f"BlockSizes is {','.join(words)}; expected {expected}")
        return sorted({sizes[0], *(size for size in sizes if size < sizes[0] * len(self.nodes))})

    def leaf_of(self, names: Collection[str], file: str, notes: list[str]) -> dict[str, str]:
        """The leaf of each of the site's nodes: the first that has it. Raises InvalidFile."""
        found, again, what = dict[str, str](), list[str](), "switch" if self.kind == "tree" else "block"
        for name, line in self.nodes.items():
            for node in hosts(line, line.get("nodes")) if line.get("nodes") else ():
                if found.setdefault(node, name) != name:
                    again.append(node)
        for nodes, why in (
            ([x for x in found if x not in names], f"of {file} are not in slurm.conf"),
            (again, f"of {file} are on more than one {what}; the first counts"),
            ([x for x in names if x not in found], f"are on no {what}: as in Slurm, no job gets them"),
        ):
            if nodes:
                notes.append(f"{counted(len(nodes), 'node')} ({abbreviated(nodes)}) {why}")
        return found
