"""The fluid model of shared nodes against nodes in detail: how far apart, and with which loss the closest.

`python -m tests.sil.world.fluid_and_detailed` prints the table of
docs/explanation/how-nodes-are-shared.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, product
from math import inf

import numpy as np

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.model import Job
from scheduler.time_shared.social_contract import MAX_CPU
from sil.runs.on_time_shared import TimeSharedSystem, built_in_characterisations
from sil.runs.simulation import RunKey
from sil.studies.cisne.coscheduling import MPLS, TASKS, WORKLOADS, jobs_at_once
from sil.studies.cisne.experiments import POLICIES, SEED, jobs_of, measures, run
from sil.trace.facts import Fact, RunTables
from sil.world.actual_runtimes import RandomStreams
from sil.world.processes.core.codes import SECOND
from sil.world.processes.machines import ProcessMachines
from sil.world.processes.model import NodeModel
from sil.world.time_shared_cluster import MEMORY_MB, Sharing, TimeSharedCluster

CLUSTER = TimeSharedCluster((MEMORY_MB,) * TASKS)
CASES = tuple(product(WORKLOADS, MPLS))
TIMES = "turnaround_s", "makespan_s"


@dataclass(frozen=True)
class Agreement:
    """The mean and the root mean square of relative differences (fluid against detailed)."""

    bias: float
    rms: float

    @classmethod
    def of(cls, fluid: Iterable[float], detailed: Iterable[float]) -> Agreement:
        apart = np.array(list(fluid)) / np.array(list(detailed)) - 1.0
        return cls(float(apart.mean()), float(np.sqrt((apart**2).mean())))


def times(
    cluster: TimeSharedCluster, cases: Iterable[tuple[str, int]] = CASES, seeds: int = 1
) -> Iterator[float]:
    """The mean turnaround and the makespan of each case."""
    for (workload, mpl), seed in product(cases, range(seeds)):
        found = measures(run(cluster, jobs_at_once(workload, mpl), POLICIES["Normal"], {}, seed, inf))
        yield from (found[of] for of in TIMES)


def detailed(model: NodeModel) -> TimeSharedCluster:
    return replace(CLUSTER, in_detail=model)


def fluid(loss: float = 0.0, inflation: float = 0.02) -> TimeSharedCluster:
    return replace(CLUSTER, sharing=Sharing(coscheduling_loss=loss, inflation=inflation))


# -- what is stored ----------------------------------------------------------------------------------------


SEEDS = 3
LOSSES = [k / 20 for k in range(21)]


@dataclass(frozen=True)
class Measured:
    loss: float
    overhead: float
    control_delay_s: float


def measured(coscheduler: Coscheduler) -> tuple[Measured, Agreement]:
    """The loss is the one with which times differ least from those on nodes in detail, given the overhead."""
    model = NodeModel(coscheduler=coscheduler)
    found, overhead = list(times(detailed(model), seeds=SEEDS)), round(overhead_of(model), 4)

    def agreement(loss: float) -> Agreement:
        sharing = Sharing(coscheduling_loss=loss, overhead=overhead)
        return Agreement.of(times(replace(CLUSTER, sharing=sharing), seeds=SEEDS), found)

    by_loss = {loss: agreement(loss) for loss in LOSSES}
    best = min(by_loss, key=lambda loss: by_loss[loss].rms)
    return Measured(best, overhead, float(f"{delay_s(model):.1g}")), by_loss[best]


def simulated(
    cluster: TimeSharedCluster, jobs: Sequence[Job], most_cpu: float, seed: int
) -> tuple[ProcessMachines, RunTables]:
    nodes = TimeSharedSystem(
        cluster.with_limits(most_cpu=most_cpu), jobs, built_in_characterisations(), RandomStreams(SEED, seed)
    )
    done = nodes.run(POLICIES["Normal"].scheduler(), {}, RunKey(0, seed, "loras"))
    assert isinstance(nodes._machines, ProcessMachines)
    return nodes._machines, done


def overhead_of(model: NodeModel) -> float:
    """The share of the CPU that the daemon of a node uses while there are jobs, the mean of all cases."""
    shares = []
    for workload, mpl in CASES:
        machines, done = simulated(detailed(model), jobs_at_once(workload, mpl), inf, 0)
        used = sum(machines.programs.used_by(row) for row in machines._rows)
        shares.append(used / SECOND / TASKS / measures(done)["makespan_s"])
    return float(np.mean(shares))


def delay_s(model: NodeModel) -> float:
    """The median time from the last change of a node's memory, by its user or a new job, to the stop of a
    job on all its nodes."""
    delays: list[float] = []
    for seed in range(SEEDS):
        cluster = TimeSharedCluster(in_detail=model).with_local_users(0.25)
        _, done = simulated(cluster, jobs_of(seed, 90), MAX_CPU, seed)
        starts_s, stops_s = (
            done.facts.filter(event=of)["time_s"].to_numpy() for of in (Fact.RUN_STARTED, Fact.RUN_STOPPED)
        )
        assert cluster.local_load is not None
        changes = cluster.local_load.changes(cluster.memory_mb, RandomStreams(SEED, seed).of("local users"))
        local_s = [time_s for time_s, _ in islice(changes, 10_000)]
        assert local_s[-1] > stops_s.max(initial=0.0)
        causes_s = np.sort(np.concatenate([starts_s, np.array(local_s)]))
        delays += (stops_s - causes_s[np.searchsorted(causes_s, stops_s, side="right") - 1]).tolist()
    return float(np.median(delays)) if delays else 0.0


if __name__ == "__main__":
    for coscheduler in Coscheduler:
        if coscheduler is not Coscheduler.NONE:
            values, agreement = measured(coscheduler)
            cells = " | ".join(f"{value:g}" for value in asdict(values).values())
            apart = f"{100 * agreement.bias:+.1f} %, {100 * agreement.rms:.1f} %"
            print(f"| `{coscheduler.value}` | {cells} | {apart} |")
