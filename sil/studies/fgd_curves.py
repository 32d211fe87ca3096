"""The allocation curves: nodes, workloads, orders of arrival and tie-breaking ranks from files, on which six
policies with whole-number scores place pods, of which ties go to the lowest rank.

Of each workload W there are `pods_W.csv`, `order_W.csv` and `noderank_W.csv`; of all, `nodes.csv` and
`allocation_seeds.csv`, and perhaps `frag_ratio.csv`. Each file may be compressed (`.csv.gz`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, Ints2
from scheduler.node_request import Node
from scheduler.node_resources.core.fragmentation import Typical
from scheduler.node_resources.selection import (
    BestFit,
    Chunk,
    DotProduct,
    FragmentationDescent,
    GpuClustering,
    GpuPacking,
    NodeSelection,
    Placement,
    typical_chunks,
)
from scheduler.node_resources.state import NodeResources
from sil.workers.runner import Runner
from sil.workload.tables import MILLI, Pod, Row, read_nodes, read_pods, read_rows
from site_db.files.input_errors import InvalidFile

COLUMNS = range(131)
"""The columns of a curve: the GPUs requested so far, in percent of capacity."""


class PublishedTrial(NamedTuple):
    """The arrivals of one seed, and the nodes in order of their tie-breaking rank."""

    nodes: Sequence[Node]
    pods: dict[str, Pod]
    arrivals: Sequence[str]


def workloads(folder: Path) -> list[str]:
    """The names of the workloads in a folder. Raises InvalidFile if there are none, or a file is missing."""
    names = sorted(path.name.removeprefix("pods_").split(".")[0] for path in folder.glob("pods_*.csv*"))
    if not names:
        raise InvalidFile(
            f"{folder}: there is no workload; expected files like pods_default.csv and order_default.csv"
        )
    for name in (
        "nodes",
        "allocation_seeds",
        *(f"{kind}_{w}" for w in names for kind in ("order", "noderank")),
    ):
        _file(folder, name)
    return names


def data_files(folder: Path, workload: str) -> list[Path]:
    """The files of which the curves of a workload are computed."""
    return [
        _file(folder, name)
        for name in ("nodes", *(f"{kind}_{workload}" for kind in ("pods", "order", "noderank")))
    ]


def seeds(folder: Path, workload: str) -> list[str]:
    """The seeds of which the order of arrivals is known."""
    first = next(read_rows(_file(folder, f"order_{workload}"), ["position"]))
    return [column.removeprefix("s") for column in first if column != "position"]


def published(folder: Path) -> dict[tuple[str, str, str], list[float]]:
    """By workload, policy and seed: the allocated GPUs in percent of capacity, for each of COLUMNS."""
    path = _file(folder, "allocation_seeds")
    rows = read_rows(path, ["workload", "policy", "seed", *map(str, COLUMNS)])
    return {
        (row["workload"], row["policy"], row["seed"]): [float(row[str(x)]) for x in COLUMNS] for row in rows
    }


def published_fragmentation(folder: Path) -> dict[tuple[str, str, int], float]:
    """By workload, policy and column, some of COLUMNS: the mean over the seeds of the fragmented share of
    idle GPUs, in percent; empty if the folder has no file frag_ratio.csv."""
    if not any(folder.glob("frag_ratio.csv*")):
        return {}
    columns = ["workload", "policy", "arrived_pct", "mean"]
    rows = read_rows(_file(folder, "frag_ratio"), columns)
    return {(row["workload"], row["policy"], int(row["arrived_pct"])): float(row["mean"]) for row in rows}


def read_experiment(folder: Path, workload: str, seed: str) -> PublishedTrial:
    """The arrivals and nodes of one seed. Raises InvalidFile with file and line."""
    pods, order, rank = _of_workload(folder, workload)
    nodes = _nodes(folder)
    ranked = sorted(rank, key=lambda row: row.number(f"s{seed}"))
    arrivals = [name for row in order if (name := row[f"s{seed}"])]
    unknown = next((row for row in order if row[f"s{seed}"] and row[f"s{seed}"] not in pods), None)
    if unknown is not None:
        raise unknown.mistake(f"pod '{unknown[f's{seed}']}' is not in pods_{workload}.csv")
    for row in ranked:
        if row["sn"] not in nodes:
            raise row.mistake(f"node '{row['sn']}' is not in nodes.csv")
    return PublishedTrial([nodes[row["sn"]] for row in ranked], pods, arrivals)


@lru_cache(1)
def _nodes(folder: Path) -> dict[str, Node]:
    return read_nodes(_file(folder, "nodes"))


@lru_cache(1)
def _of_workload(folder: Path, workload: str) -> tuple[dict[str, Pod], list[Row], list[Row]]:
    order = list(read_rows(_file(folder, f"order_{workload}"), ["position"]))
    rank = list(read_rows(_file(folder, f"noderank_{workload}"), ["sn"]))
    return read_pods(_file(folder, f"pods_{workload}")), order, rank


def _file(folder: Path, name: str) -> Path:
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.exists():
            return path
    raise InvalidFile(f"{folder}: there is no file {name}.csv or {name}.csv.gz")


class PublishedCase(NamedTuple):
    """One experiment; `data` is a digest of its files."""

    workload: str
    policy: str
    seed: str
    data: str


class Curves(NamedTuple):
    """For each of COLUMNS: allocated GPUs in percent of capacity, and fragmented ones in percent of those
    that are not allocated. NaN where nothing arrived."""

    allocated: list[float]
    fragmented: list[float]


def curves(cases: Sequence[PublishedCase], folder: Path, runner: Runner) -> list[Curves]:
    return runner.map(_curve, cases, folder)


def _curve(folder: Path, case: PublishedCase) -> Curves:
    return curve(read_experiment(folder, case.workload, case.seed), case.policy, int(case.seed))


def curve(experiment: PublishedTrial, name: str, seed: int) -> Curves:
    """Pods arrive one by one; one that fits nowhere is dropped, but counts as arrived."""
    nodes = NodeResources(experiment.nodes)
    kinds = {pod.name: nodes.kind_of(pod.request) for pod in experiment.pods.values()}
    place = policy(name, nodes, experiment.pods, seed).place
    requested = np.array([experiment.pods[pod].gpu_milli for pod in experiment.arrivals])
    typical, of_nodes = typical_pods(experiment.pods.values(), nodes), np.zeros(len(experiment.nodes))
    typical.write_fragmentation(nodes.state, np.arange(len(of_nodes)), of_nodes)
    is_placed, fragmented = np.zeros(len(requested), dtype=bool), np.zeros(len(requested))
    for x, pod in enumerate(experiment.arrivals):
        used = place(kinds[pod], 1)
        if used is not None:
            is_placed[x] = True
            typical.write_fragmentation(nodes.state, used[:, 0].copy(), of_nodes)
        fragmented[x] = of_nodes.sum()
    capacity = nodes.gpu_capacity
    arrived_percent = 100 * requested.cumsum() / capacity
    allocated = (requested * is_placed).cumsum()
    return Curves(
        np.round(_by_column(arrived_percent, 100 * allocated / capacity), 2).tolist(),
        _by_column(arrived_percent, 100 * fragmented / (capacity - allocated)).tolist(),
    )


def _by_column(arrived_percent: Floats, percent: Floats) -> Floats:
    """For each column, the mean over the arrivals at this percentage, else over those within one of it, else
    NaN; of percentages that are rounded as those of the published curves."""
    x, y = np.rint(arrived_percent), np.round(percent, 2)
    means = np.full(len(COLUMNS), np.nan)
    for column in COLUMNS:
        there = y[x == column]
        if not len(there):
            there = y[np.abs(x - column) <= 1]
        if len(there):
            means[column] = there.mean()
    return means


# -- policies ------------------------------------------------------------------------------------------------

WEIGHTS = (0.5, 0.0, 0.5)
"""The weights of cores, memory and GPUs in DotProd and BestFit."""


class WholeNumbers(NodeSelection):
    """Another selection, with its scores rounded."""

    def __init__(self, selection: NodeSelection, rounded: np.ufunc) -> None:
        self._selection, self._rounded = selection, rounded

    def score(self, nodes: NodeResources, kind: int, which: Ints, scores: Floats2) -> None:
        self._selection.score(nodes, kind, which, scores)
        self._rounded(scores[kind], scores[kind])  # the whole row: whole numbers stay as they are


class Random:
    """Chooses any node on which the pod fits, and any of its GPUs that will do, all equally likely."""

    def __init__(self, nodes: NodeResources, seed: int) -> None:
        self._nodes, self._rng = nodes, np.random.default_rng(seed)

    def place(self, kind: int, chunks: int) -> Ints2 | None:
        nodes = self._nodes
        if not nodes.fits(kind, chunks):
            return None
        n = self._any(nodes.where_fits(kind))
        gpu = self._any(nodes.gpus_that_fit(kind, n))
        used = np.array([[n, chunks, 0 if gpu < 0 else 1 << gpu]])
        nodes.state.take_all_of(kind, used)
        return used

    def _any(self, which: Ints) -> int:
        """A number as `choice` of the generator draws it, which takes longer than all else."""
        return int(which[self._rng.integers(len(which))])


POLICIES = ("Random", "DotProd", "GpuClustering", "GpuPacking", "BestFit", "FGD")
EXACT = POLICIES[1:]
"""The policies without random numbers."""


def policy(name: str, nodes: NodeResources, pods: Mapping[str, Pod], seed: int) -> Random | Placement:
    """`pods` are those of the workload, of which FGD knows the typical ones."""
    selections: dict[str, Callable[[], NodeSelection]] = {
        "DotProd": lambda: WholeNumbers(DotProduct(WEIGHTS), np.floor),
        "GpuClustering": lambda: WholeNumbers(GpuClustering(), np.floor),
        "GpuPacking": lambda: WholeNumbers(GpuPacking(), np.ceil),
        "BestFit": lambda: WholeNumbers(BestFit(WEIGHTS), np.floor),
        "FGD": lambda: FragmentationDescent(typical_pods(pods.values(), nodes), in_steps=True),
    }
    return Random(nodes, seed) if name == "Random" else Placement(nodes, selections[name]())


def typical_pods(pods: Iterable[Pod], nodes: NodeResources) -> Typical:
    return typical_chunks(Counter(map(_chunk, pods)), nodes)


def _chunk(pod: Pod) -> Chunk:
    gpus, cores = pod.request.gpus, round(MILLI * pod.request.cores)
    if gpus is None:
        return Chunk(cores, 0, 0, "")
    return Chunk(cores, round(MILLI * gpus.share), gpus.count, pod.gpu_spec)
