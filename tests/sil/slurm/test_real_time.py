"""Our clock against real time: the same jobs on packaged node daemons."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from scheduler import UserError
from sil.runs.on_log import Replay
from sil.settings.replays import Engine
from sil.slurm.configuration import configuration_of
from sil.slurm.installation import installed
from sil.slurm.running import munged
from tests.sil.experiment.test_replay import log_of
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.real_cluster import RealCluster, real_cluster, until
from tests.sil.slurm.test_replays import rows, starts_under

N_NODES = 14
SETTINGS = "bf_interval=1,bf_resolution=1,bf_job_part_count_reserve=1,batch_sched_delay=0"
"""The controller's loops look for work each second, so a start is late by up to a second, here and there."""

Jobs = list[tuple[int, int, int, int]]
"""Submission, run time, nodes and limit, in seconds."""


def lacks() -> str | None:
    """What a cluster in real time lacks here."""
    try:
        installed().program("slurmd")
        munged(installed())
    except UserError as error:
        return str(error)
    return None


def forty_jobs() -> Jobs:
    """15 wait, and 4 overtake others. Of some thousand such lists, this is one whose order does not change if
    starts are late by up to a second: that of most does, also from one real cluster to the next."""
    rng = np.random.default_rng(409)
    submissions = np.sort(rng.integers(0, 165, 40))
    submissions[0] = 0
    run_s = rng.integers(5, 60, 40)
    sizes = rng.choice([1, 2, 3, 4, 6], 40, p=[0.45, 0.25, 0.15, 0.1, 0.05])
    limits_min = np.maximum(1 + rng.integers(0, 4, 40), -(-(run_s + 5) // 60))
    return [
        (int(at), int(run), int(size), int(60 * limit))
        for at, run, size, limit in zip(submissions, run_s, sizes, limits_min, strict=True)
    ]


def submitted_in_real_time(cluster: RealCluster, jobs: Jobs) -> float:
    """The time of second 0, which is a whole one of the epoch."""
    second_0 = float(int(time.time()) + 2)
    for n, (at, run_s, size, limit_s) in enumerate(jobs, 1):
        time.sleep(max(0.0, second_0 + at - time.time()))
        options = f"-J {n} -N {size} -n {size} -t {limit_s // 60} -o /dev/null"
        cluster.slurm("sbatch", *options.split(), "--wrap", f"sleep {run_s}")
    return second_0


@pytest.mark.long
@needs_slurm
def test_jobs_start_when_they_do_on_real_nodes(tmp_path: Path) -> None:
    if why := lacks():
        pytest.skip(f"without a real cluster: {why}")
    jobs = forty_jobs()
    configuration = configuration_of(N_NODES, settings=[f"SchedulerParameters={SETTINGS}"])
    with real_cluster(configuration.lines, [f"n{k}" for k in range(1, N_NODES + 1)]) as cluster:
        second_0 = submitted_in_real_time(cluster, jobs)
        while cluster.n_completed() < len(jobs) and time.time() < second_0 + 300:
            time.sleep(0.5)
        real = {n: at - second_0 for n, at in cluster.starts_s().items()}
        assert cluster.n_completed() == len(jobs)
    assert not cluster.processes()
    assert not cluster.folder.exists()

    replay = Replay(log_of(rows(*jobs), N_NODES), engine=Engine.HARNESS)
    found = starts_under(f"slurm (SchedulerParameters={SETTINGS})", replay, tmp_path)
    later_s = {n: at - real[n] for n, at in found.select("job", "time_s").iter_rows()}
    makespan_s = max(real[n] + run_s for n, (_, run_s, _, _) in enumerate(jobs, 1))
    print(f"makespan {makespan_s:.1f} s; later in simulated time by, in s: {later_s}")
    assert len(later_s) == len(jobs)
    assert max(map(abs, later_s.values())) <= 0.017 * makespan_s, (makespan_s, later_s)


@pytest.mark.long
@needs_slurm
def test_nothing_remains_of_a_cluster_whose_jobs_still_run() -> None:
    if why := lacks():
        pytest.skip(f"without a real cluster: {why}")
    settings = ["SchedulerParameters=batch_sched_delay=0,bf_interval=1"]
    with real_cluster(configuration_of(1, settings=settings).lines, ["n1"]) as cluster:
        cluster.slurm("sbatch", "-o", "/dev/null", "--wrap", "sleep 100")
        until("the job runs", lambda: "sleep" in {process.name() for process in cluster.processes()})
        running = cluster.processes()
        assert {"munged", "slurmd", "slurmstepd"} <= {process.name() for process in running}
    assert not any(process.is_running() for process in running)
    assert not cluster.folder.exists()
