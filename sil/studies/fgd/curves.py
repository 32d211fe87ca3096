"""The GPUs that a policy allocates while pods arrive and none leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats
from scheduler.node_resources.state import NodeResources
from sil.studies.fgd.cluster_data import COLUMNS, Experiment, read_experiment
from sil.studies.fgd.policies import policy
from sil.workers.runner import Runner


class Case(NamedTuple):
    """One experiment; `data` is a digest of its files."""

    workload: str
    policy: str
    seed: str
    data: str


def curves(cases: Sequence[Case], folder: Path, runner: Runner) -> list[list[float]]:
    """The curve of each case: allocated GPUs in percent of capacity, for each of COLUMNS."""
    return runner.map(_curve, cases, folder)


def _curve(folder: Path, case: Case) -> list[float]:
    return curve(read_experiment(folder, case.workload, case.seed), case.policy, int(case.seed))


def curve(experiment: Experiment, name: str, seed: int) -> list[float]:
    """Pods arrive one by one; one that fits nowhere is dropped, but counts as arrived."""
    nodes = NodeResources(experiment.nodes)
    kinds = {pod.name: nodes.kind_of(pod.request) for pod in experiment.pods.values()}
    place = policy(name, nodes, experiment.pods, seed).place
    requested = np.array([experiment.pods[pod].gpu_milli for pod in experiment.arrivals])
    is_placed = [place(kinds[pod], 1) is not None for pod in experiment.arrivals]
    capacity = nodes.gpu_capacity
    arrived_percent = 100 * requested.cumsum() / capacity
    return _by_column(arrived_percent, 100 * (requested * is_placed).cumsum() / capacity)


def _by_column(arrived_percent: Floats, allocated_percent: Floats) -> list[float]:
    """For each column, the mean over the arrivals at this percentage, else over those within one of it, else
    NaN; with the rounding of the published curves."""
    x, y = np.rint(arrived_percent), np.round(allocated_percent, 2)
    means = np.full(len(COLUMNS), np.nan)
    for column in COLUMNS:
        there = y[x == column]
        if not len(there):
            there = y[np.abs(x - column) <= 1]
        if len(there):
            means[column] = there.mean()
    rounded: list[float] = np.round(means, 2).tolist()
    return rounded
