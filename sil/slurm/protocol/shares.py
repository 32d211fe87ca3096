"""What a job has on each of its nodes, in the order to launch it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sil.slurm.protocol.records import plugin_of
from sil.slurm.protocol.releases import ProtocolError
from site_db.site_file.machine_names import expand, patterns

PER_CPU = 1 << 63
"""In a request of memory: for each CPU, not each node."""
MOST_NODES = 1_000_000
"""Of a job; more are malformed."""
GPU = plugin_of("gpu")


class NodeShare(NamedTuple):
    """What a job has on one of its nodes: places of cores and GPUs on the node, and the number of each
    generic resource by its plug-in. The order to launch a job says what memory (in MB) it has on its first
    node, and on others only if it has requested memory; else that is None."""

    node: str
    cpus: int
    cores: tuple[int, ...]
    gpus: tuple[int, ...]
    memory_mb: int | None
    gres: dict[int, int]


def shares(launch: Any) -> list[NodeShare]:
    """What the job has on each of its nodes, in their order. Raises ProtocolError if the order contradicts
    itself."""
    credential = launch.credential
    names = node_names(credential.nodes)
    if len(names) != credential.n_nodes:
        raise ProtocolError(f"a credential of {credential.n_nodes:,} nodes names {len(names):,}")
    cpus = _of_each(launch.cpus_of_nodes)
    if len(cpus) != len(names):
        raise ProtocolError(f"a job on {len(names):,} nodes has CPUs on {len(cpus):,}")
    known = _of_each(credential.memory_of_nodes)[: len(names)]
    memory = [*known, *(_memory(launch.least_memory, n_cpus) for n_cpus in cpus[len(known) :])]
    gpus: list[list[int]] = [[] for _ in names]
    numbers: list[dict[int, int]] = [{} for _ in names]
    for gres in credential.gres:
        for of_node, number in zip(numbers, gres.counts or (), strict=False):
            if number:
                of_node[gres.plugin] = of_node.get(gres.plugin, 0) + number
        for places, devices in zip(gpus, gres.devices or (), strict=False):
            if gres.plugin == GPU and devices:
                places += devices.places()
    each = zip(names, cpus, _cores(credential, len(names)), gpus, memory, numbers, strict=True)
    return [
        NodeShare(name, n_cpus, cores, tuple(sorted(places)), megabytes, number)
        for name, n_cpus, cores, places, megabytes, number in each
    ]


_SHARE = re.compile(r"^\s*Nodes=(\S+) CPU_IDs=([\d,-]+) Mem=\d+ GRES=(.*)$", re.MULTILINE)
_GPUS = re.compile(r"gpu[^,(]*\(IDX:([\d,-]+)\)")


def shares_shown(shown: str, threads: Mapping[str, int]) -> Iterator[NodeShare]:
    """What a job has, of what `scontrol show job --details` prints of it; `threads` are those of cores by
    node."""
    for nodes, cpus, gres in _SHARE.findall(shown):
        places = _numbers(cpus)
        gpus = tuple(gpu for listed in _GPUS.findall(gres) for gpu in _numbers(listed))
        for node in node_names(nodes):
            cores = tuple(dict.fromkeys(place // threads.get(node, 1) for place in places))
            yield NodeShare(node, len(places), cores, gpus, None, {})


def _numbers(listed: str) -> list[int]:
    """Of a list like 0-3,8."""
    return [int(number) for number in node_names(f"[{listed}]")]


def _memory(requested: int, n_cpus: int) -> int | None:
    """What a request of memory, per node or per CPU, amounts to on a node."""
    return (requested - PER_CPU) * n_cpus if requested >= PER_CPU else requested or None


def node_names(nodes: str | None) -> list[str]:
    """The names in a list in brackets, in its order. Raises ProtocolError."""
    try:
        return expand(patterns(nodes or ""))
    except ValueError as error:
        raise ProtocolError(f"a list of nodes cannot be read: {error}") from None


def _of_each(repeated: tuple[tuple[int, int], ...]) -> list[int]:
    """Numbers that are repeated, one for each node."""
    if sum(times for _, times in repeated) > MOST_NODES:
        raise ProtocolError(f"a number is repeated for more than {MOST_NODES:,} nodes")
    return [number for number, times in repeated for _ in range(times)]


def _cores(credential: Any, n_nodes: int) -> list[tuple[int, ...]]:
    if credential.cores is None:
        return [()] * n_nodes
    found: list[tuple[int, ...]] = []
    first = 0
    for per_socket, sockets, n_alike in credential.cores_of_nodes:
        for _ in range(min(n_alike, n_nodes - len(found))):
            after = first + per_socket * sockets
            found.append(tuple(credential.cores.places(first, after)))
            first = after
    if len(found) < n_nodes or first > credential.cores.size:
        raise ProtocolError(f"a credential of {n_nodes:,} nodes has cores on {len(found):,}")
    return found
