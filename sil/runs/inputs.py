"""What the tables of an experiment file stand for: arrivals, true times, failures, monitors, rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType

from scheduler.model import Job, Site
from sil.runs.random_streams import stream
from sil.settings.experiment_file import (
    AtOnceTable,
    EmpiricalTable,
    EveryQuantumTable,
    ExactTable,
    Experiment,
    GammaTable,
    LognormalTable,
    NormalTable,
)
from sil.site.site_in_use import Queues, SiteInUse
from sil.site.what_if_times import with_luck
from sil.workload.arrivals import Arrivals, AtOnce, Poisson
from sil.workload.job_mix import JobMix, Order, QueueOrder
from sil.world.actual_runtimes import ActualRuntimes, Empirical, Gamma, Lognormal, Normal, NoSpread, Spread
from sil.world.failures import Outage, TimedChange, in_order_of_time, listed_outages, random_failures
from sil.world.monitors import Distortion, Noisy, Stale
from sil.world.rounds import EveryQuantum, OnRequest, RoundPolicy


def workload(
    experiment: Experiment,
    site: Site,
    queues: Queues,
    replication: int,
    tasks: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> list[Job]:
    """The jobs of one replication: the same for every scheduler. `tasks`: how many those of a class may
    have."""
    table = experiment.workload
    mix = JobMix(
        classes=table.mix or {job_class.name: 1.0 for job_class in site.job_classes},
        queues=table.queues or {queues[0][0].name: 1.0},
        users=table.users,
        order=Order(table.order),
        queue_order=QueueOrder(table.queue_order),
        sizes=table.sizes,
        tasks=tasks,
    )
    luck = stream(experiment.seed, replication, "workload")
    return mix.jobs(table.jobs, arrivals(experiment), site.job_classes, luck)


def arrivals(experiment: Experiment) -> Arrivals:
    """When jobs arrive."""
    table = experiment.workload.arrivals
    return AtOnce() if isinstance(table, AtOnceTable) else Poisson(table.jobs_per_quantum, table.quantum_s)


def rounds(experiment: Experiment) -> RoundPolicy:
    """When rounds are due."""
    table = experiment.rounds
    if isinstance(table, EveryQuantumTable):
        return EveryQuantum(table.quantum_s)
    return OnRequest(table.least_distance_s)


def spread(experiment: Experiment) -> Spread:
    """How true run times scatter."""
    table = experiment.run_times
    match table:
        case ExactTable():
            return NoSpread()
        case NormalTable():
            return Normal(table.coefficient_of_variation)
        case LognormalTable():
            return Lognormal(table.coefficient_of_variation)
        case GammaTable():
            return Gamma(table.coefficient_of_variation)
        case EmpiricalTable():
            return Empirical(table.ratios)


def actual_runtimes(
    experiment: Experiment, in_use: SiteInUse, jobs: Sequence[Job], replication: int
) -> ActualRuntimes:
    """How long the jobs of one replication really run."""
    everyone = [len(members) for members in in_use.site.members]
    mean = in_use.experience().estimate(jobs, everyone)
    if in_use.uncertain:
        luck = stream(experiment.seed, replication, "imagined times")
        mean = with_luck(mean, jobs, in_use.believed[0], in_use.uncertain, luck)
    return ActualRuntimes(
        mean,
        spread(experiment),
        stream(experiment.seed, replication, "run times").random(len(jobs)),
    )


def distortions(experiment: Experiment, replication: int) -> list[Distortion]:
    """How monitors differ from the truth."""
    table = experiment.monitors
    luck = stream(experiment.seed, replication, "monitors")
    noisy: list[Distortion] = [Noisy(table.misread_share, table.corrected_after_s, luck)]
    stale: list[Distortion] = [Stale(table.delay_s)]
    return (noisy if table.misread_share else []) + (stale if table.delay_s else [])


def state_changes(
    experiment: Experiment, in_use: SiteInUse, machines: Mapping[str, int], replication: int
) -> Iterator[TimedChange]:
    """What of `machines`, and of the interconnects, goes down and comes back."""
    elsewhere = in_use.site.machine_index.keys() - machines.keys()
    outages = [Outage(machines.get(name, name), 0.0, inf) for name in in_use.down if name not in elsewhere]
    outages += [
        Outage(
            machines[outage.machine] if outage.machine else str(outage.interconnect),
            outage.from_s,
            outage.to_s,
        )
        for outage in experiment.outages
    ]
    outages += [
        Outage(machines[gone.machine], gone.from_s, gone.to_s)
        for gone in in_use.absences
        if gone.machine in machines
    ]
    sources = [listed_outages(outages)]
    if experiment.failures:
        table = experiment.failures
        sources.append(
            random_failures(
                len(machines),
                table.mean_time_between_failures_s,
                table.mean_time_to_repair_s,
                stream(experiment.seed, replication, "failures"),
            )
        )
    return in_order_of_time(*sources)
