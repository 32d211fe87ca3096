"""What goes wrong in an experiment, resolved at its site: the table `failures`, and a manager over a network
(the tables `messages`, `crashes` and `clock_jumps`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from scheduler.resource_manager import Manager, Ports
from sil.runs.under_test import InProcess, SlurmProgram, UnderTest
from sil.settings.experiment_file import Experiment
from sil.settings.faults import FailuresTable, MessagesTable, RandomFailuresTable
from sil.settings.replays import NONE
from sil.site.site_in_use import SiteInUse
from sil.world.actual_runtimes import RandomStreams
from sil.world.failures import Hindrances, RandomFailures, SlowMachines, TimedChange, failing_runs
from site_db.files.toml_file import Location

if TYPE_CHECKING:
    from sil.runs.simulation import SiteModel
    from sil.world.failures import Checkpoints
    from sil.world.harness import World
    from sil.world.remote.network import MessageFault, Mishap


def at_random(
    table: FailuresTable, machines: Mapping[str, int], interconnects: Sequence[str], streams: RandomStreams
) -> Iterator[Iterator[TimedChange]]:
    """Random failures and repairs of `machines` (index by name), of groups of them, and of interconnects;
    each has its own random numbers."""
    if table.machines is not None:
        singles = [(j,) for j in machines.values()]
        yield _process(table.machines).changes(singles, streams.of("failures"))
    for name, of_groups in table.groups.items():
        indices = [machines[machine] for machine in of_groups.machines or machines]
        size = of_groups.size or len(indices)
        groups = [indices[k : k + size] for k in range(0, len(indices), size)]
        yield _process(of_groups).changes(groups, streams.of(f"failures of groups {name}"))
    if table.interconnects is not None:
        each = [(name,) for name in interconnects]
        yield _process(table.interconnects).changes(each, streams.of("failures of interconnects"))


def hindrances(
    table: FailuresTable,
    site: SiteModel,
    machines: Mapping[str, Sequence[int]],
    streams: RandomStreams,
    checkpoints: Checkpoints | None = None,
) -> Hindrances | None:
    """Slow machines, and the failing runs of the jobs of a site; None without any, and without checkpoints.
    `machines` are indices in orders by name: the slots of each."""
    slow = []
    for name, of_slow in table.slow_machines.items():
        chosen: Sequence[str] = of_slow.machines or ()
        if of_slow.share is not None:  # a greater share has those of a smaller one, too
            order = streams.of(f"slow machines {name}").permutation(len(machines))
            chosen = [[*machines][k] for k in order[: round(of_slow.share * len(machines))]]
        places = frozenset(place for machine in chosen for place in machines[machine])
        to_s = inf if of_slow.to_s is None else of_slow.to_s
        slow.append(SlowMachines(places, of_slow.factor, of_slow.from_s, to_s))
    failing, jobs = {}, list(site.jobs) if table.jobs else []
    for name, of_jobs in reversed(table.jobs.items()):  # the first one counts for a job of several
        draws = streams.of(f"failing jobs {name}").random((len(jobs), 2)).tolist()
        classes = of_jobs.job_classes
        for job, (draw, of_runs) in zip(jobs, draws, strict=True):
            if draw < of_jobs.share and (classes is None or job.job_class in classes):
                failing[job.id] = failing_runs(of_jobs.probability, of_jobs.after, of_runs)
    return Hindrances(slow, failing, site.limit_s, checkpoints) if slow or failing or checkpoints else None


def _process(table: RandomFailuresTable) -> RandomFailures:
    flapping = table.flapping.model_dump() if table.flapping else {}
    return RandomFailures(table.mean_time_between_failures_s, table.mean_time_to_repair_s, **flapping)


Make = Callable[[Ports], Manager]


def is_remote(experiment: Experiment) -> bool:
    """Whether the manager reaches the machines over a network, or may crash."""
    return bool(experiment.messages or experiment.crashes or experiment.clock_jumps)


def mistakes(
    experiment: Experiment,
    in_use: SiteInUse,
    schedulers: Iterable[UnderTest],
    machines: Collection[str],
    owner: str,
    has_lines: bool = False,
) -> Iterator[tuple[Location, str]]:
    """What the tables of faults name and the site does not have, and what does not go together, with the
    places in the file. `owner` has the `machines`, and maybe interconnects that jobs need (`has_lines`)."""
    site, log = in_use.site, in_use.log
    failures = experiment.failures or FailuresTable()
    lines = [interconnect.name for interconnect in site.interconnects]
    classes = [job_class.name for job_class in site.job_classes]
    classes += sorted(set(() if log is None else log.job_classes) - set(classes))
    known = {"machine": set(machines), "interconnect": set(lines), "job class": classes}
    named: list[tuple[Location, str, Iterable[str | None]]] = []
    for k, outage in enumerate(experiment.outages):
        named.append((("outages", k, "machine"), "machine", [outage.machine]))
        named.append((("outages", k, "interconnect"), "interconnect", [outage.interconnect]))
    for k, cut in enumerate(experiment.messages.partitions if experiment.messages else ()):
        named.append((("messages", "partitions", k, "machines"), "machine", cut.machines))
    for key in ("groups", "slow_machines"):
        for name, table in getattr(failures, key).items():
            named.append((("failures", key, name, "machines"), "machine", table.machines or ()))
    for name, of_jobs in failures.jobs.items():
        named.append((("failures", "jobs", name, "job_classes"), "job class", of_jobs.job_classes or ()))
    for place, what, names in named:
        hint = f"; it has {', '.join(classes)}" if what == "job class" else ""
        for unknown in names:
            if unknown is not None and unknown not in known[what]:
                yield place, f"{owner} has no {what} '{unknown}'{hint}"
    if failures.interconnects is not None and not (lines and has_lines):
        yield ("failures", "interconnects"), f"{owner} has no interconnects that jobs need"
    for scheduler in schedulers:
        place, who = ("schedulers", scheduler.label), f"scheduler '{scheduler.label}'"
        if is_remote(experiment) and not isinstance(scheduler, InProcess):
            yield (
                place,
                f"{who} is a program of its own, which cannot be restarted in simulated time; leave out the "
                f"tables messages, crashes and clock_jumps",
            )
        if failures.jobs and isinstance(scheduler, SlurmProgram):
            yield (
                place,
                f"{who}: Slurm's controller does not learn of runs that fail (failures.jobs); leave out one "
                f"of the two",
            )
    if experiment.crashes is not None and experiment.guard.decision_cost != NONE:
        yield (
            ("guard", "decision_cost"),
            "a manager that may crash decides again after a restart, in no simulated time; leave out "
            "guard.decision_cost or the table crashes",
        )


@dataclass(frozen=True)
class RemoteSettings:
    """What is between a manager and the machines, and when it crashes. `machines` are indices in orders by
    name: the slots of each."""

    experiment: Experiment
    machines: Mapping[str, Sequence[int]]
    streams: RandomStreams

    def manager(
        self, max_batch_requeue: int | None, decisions: list[float], world: World, ports: Ports, make: Make
    ) -> Manager:
        """The manager that `make` makes, also after a crash. Measured decisions are added to `decisions`; a
        manager that is made again adds none for what it decides again."""
        from scheduler.durability.journalled_manager import dependable
        from scheduler.durability.reliable_delivery import Timeouts
        from sil.world.remote.network import Crashes, CrashingJournal, ManagerClock, MemoryJournal, Network
        from sil.world.remote.remote_manager import RemoteManager

        crashes = journal = None
        experiment, table = self.experiment, self.experiment.messages or MessagesTable()
        if experiment.crashes is not None:
            means = experiment.crashes.mean_time_between_crashes_s, experiment.crashes.down_s
            crashes = Crashes(*means, world.clock, self.streams.of("crashes"))
            journal = CrashingJournal(MemoryJournal(), crashes)
        timeouts = Timeouts(table.retry_s, table.ping_s, table.pings)
        make_dependable = dependable(make, timeouts, max_batch_requeue, journal)

        def made(ports: Ports) -> Manager:
            n = len(decisions)
            manager = make_dependable(ports)
            del decisions[n:]
            return manager

        network = Network(world.clock, world.events, [*self._faults(table)])
        jumps = sorted((jump.at_s, jump.offset_s) for jump in experiment.clock_jumps)
        return RemoteManager(world, ports, made, network, crashes, ManagerClock(world.clock, jumps))

    def _faults(self, table: MessagesTable) -> Iterator[MessageFault]:
        from sil.world.remote.network import NetworkPartition, Unreliable

        until_s, by_s = inf if table.until_s is None else table.until_s, table.reordered_by_s
        kinds: tuple[tuple[Mishap, float, float], ...] = (
            ("late", bool(table.mean_delay_s), table.mean_delay_s),
            ("lost", table.lost_share, 0.0),
            ("repeated", table.duplicated_share, by_s),
            ("reordered", table.reordered_share, by_s),
        )
        for how, share, of_s in kinds:
            if share:
                yield Unreliable(how, self.streams.of(f"{how} messages"), share, of_s, until_s)
        for cut in table.partitions:
            places = frozenset(place for name in cut.machines for place in self.machines[name])
            yield NetworkPartition(places, cut.from_s, cut.to_s)
