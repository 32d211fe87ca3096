"""The GPUs that a policy allocates while pods arrive and none leaves, and the share of the others that
typical pods cannot use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats
from scheduler.node_resources.kernels.fragmentation import fragmentations
from scheduler.node_resources.state import NodeResources
from sil.studies.fgd.cluster_data import COLUMNS, Experiment, read_experiment
from sil.studies.fgd.policies import policy, typical_pods
from sil.workers.runner import Runner


class Case(NamedTuple):
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


def curves(cases: Sequence[Case], folder: Path, runner: Runner) -> list[Curves]:
    return runner.map(_curve, cases, folder)


def _curve(folder: Path, case: Case) -> Curves:
    return curve(read_experiment(folder, case.workload, case.seed), case.policy, int(case.seed))


def curve(experiment: Experiment, name: str, seed: int) -> Curves:
    """Pods arrive one by one; one that fits nowhere is dropped, but counts as arrived."""
    nodes = NodeResources(experiment.nodes)
    kinds = {pod.name: nodes.kind_of(pod.request) for pod in experiment.pods.values()}
    place = policy(name, nodes, experiment.pods, seed).place
    requested = np.array([experiment.pods[pod].gpu_milli for pod in experiment.arrivals])
    typical, of_nodes = typical_pods(experiment.pods.values(), nodes), np.zeros(len(experiment.nodes))
    fragmentations(nodes.table, typical, np.arange(len(of_nodes)), of_nodes)
    is_placed, fragmented = np.zeros(len(requested), dtype=bool), np.zeros(len(requested))
    for x, pod in enumerate(experiment.arrivals):
        used = place(kinds[pod], 1)
        if used is not None:
            is_placed[x] = True
            fragmentations(nodes.table, typical, used[:, 0].copy(), of_nodes)
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
