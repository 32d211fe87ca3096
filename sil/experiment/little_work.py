"""Which experiments are over before worker processes would have started."""

from __future__ import annotations

from scheduler.registry import ON_FREE_NODES, ON_MACHINES, OPTIMISING
from sil.settings.experiment_file import Experiment

MOST_JOBS = 2_000
"""Over all runs. A job takes about a millisecond, starting the workers some seconds of CPU time."""
QUICK = {*ON_MACHINES, *ON_FREE_NODES} - OPTIMISING - {"gsa"}
"""Schedulers by name that never take seconds for a decision."""


def is_little_work(experiment: Experiment) -> bool:
    """Whether the process of the command carries out all runs itself: few jobs under quick built-in
    schedulers, which need no process of their own. Predictions on time-shared nodes are not quick."""
    workload = experiment.workload
    if workload is None or experiment.shared_nodes is not None or not QUICK.issuperset(experiment.schedulers):
        return False
    of_points = (point.get("workload.jobs", workload.jobs) for point in experiment.points)
    n_runs = experiment.replications * len(experiment.schedulers)
    return n_runs * sum(n for n in of_points if isinstance(n, int)) <= MOST_JOBS
