"""The tables `messages`, `crashes` and `clock_jumps` of an experiment: a manager over a network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from scheduler.resource_manager import Manager, Ports
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.experiment_file import Experiment
from sil.settings.faults import MessagesTable
from sil.settings.replays import NONE
from sil.world.random_streams import RandomStreams
from site_db.files.toml_file import Location

if TYPE_CHECKING:
    from sil.world.harness import World
    from sil.world.remote.network import MessageFault

Make = Callable[[Ports], Manager]


def is_remote(experiment: Experiment) -> bool:
    """Whether the manager reaches the machines over a network, or may crash."""
    return bool(experiment.messages or experiment.crashes or experiment.clock_jumps)


def mistakes(experiment: Experiment, schedulers: Iterable[UnderTest]) -> Iterator[tuple[Location, str]]:
    """What does not go together with a network or crashes, with the places in the file."""
    if not is_remote(experiment):
        return
    for scheduler in schedulers:
        if not isinstance(scheduler, InProcess):
            yield (
                ("schedulers", scheduler.label),
                f"scheduler '{scheduler.label}' is a program of its own, which cannot be restarted in "
                f"simulated time; leave out the tables messages, crashes and clock_jumps",
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
        """The manager that `make` makes, also after a crash. `decisions` are the cells of measured ones, of
        which a manager that is made anew adds none for what it decides again."""
        from scheduler.durability.journalled_manager import dependable
        from scheduler.durability.reliable_delivery import Timeouts
        from sil.world.remote.clocks import ManagerClock
        from sil.world.remote.crashes import Crashes, CrashingJournal, MemoryJournal
        from sil.world.remote.network import Network
        from sil.world.remote.remote_manager import RemoteManager

        crashes = journal = None
        experiment, table = self.experiment, self._messages
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

        network = Network(world.clock, world.events, [*self._faults()])
        jumps = sorted((jump.at_s, jump.offset_s) for jump in experiment.clock_jumps)
        return RemoteManager(world, ports, made, network, crashes, ManagerClock(world.clock, jumps))

    @property
    def _messages(self) -> MessagesTable:
        return self.experiment.messages or MessagesTable()

    def _faults(self) -> Iterator[MessageFault]:
        from sil.world.remote.network import Delayed, Duplicated, Lost, Partition, Reordered, Until

        table, streams = self._messages, self.streams
        until_s = inf if table.until_s is None else table.until_s
        if table.mean_delay_s:
            yield Until(until_s, Delayed(table.mean_delay_s, streams.of("late messages")))
        if table.lost_share:
            yield Until(until_s, Lost(table.lost_share, streams.of("lost messages")))
        if table.duplicated_share:
            rng = streams.of("repeated messages")
            yield Until(until_s, Duplicated(table.duplicated_share, table.reordered_by_s, rng))
        if table.reordered_share:
            rng = streams.of("reordered messages")
            yield Until(until_s, Reordered(table.reordered_share, table.reordered_by_s, rng))
        for cut in table.partitions:
            places = frozenset(place for name in cut.machines for place in self.machines[name])
            yield Partition(places, cut.from_s, cut.to_s)


def unknown_machines(
    table: MessagesTable | None, machines: Collection[str], owner: str
) -> Iterator[tuple[Location, str]]:
    """What the table names and the site does not have, with the places in the file."""
    for k, cut in enumerate(() if table is None else table.partitions):
        for name in cut.machines:
            if name not in machines:
                yield ("messages", "partitions", k, "machines"), f"{owner} has no machine '{name}'"
