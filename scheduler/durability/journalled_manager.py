"""A resource manager that continues after its process has ended, from a journal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from scheduler.durability.journal import Journal, JournalEntry
from scheduler.durability.reliable_delivery import DEFAULT, ReliableDelivery, Timeouts
from scheduler.model import DispatchOrder
from scheduler.node_set import NodeSet
from scheduler.ports import METHOD_OF, Notice, arguments_of, notice_of
from scheduler.resource_manager import Manager, ManagerDecorator, Ports, RequeueLimit

MADE = "__init__"
PORTS = ("clock", "dispatcher", "monitor", "experience", "run_times", "characterisation")
READS = ("news", "estimate", "estimate_s", "outlived_s", "requirement")
"""Methods of ports that return something."""
DECIDES_BY_READS = "a manager with a journal decides by what it reads through its ports alone"


class JournalMismatch(Exception):
    """A restarted manager deviates from its journal. The message says where."""


class JournalledManager(ManagerDecorator):
    """Writes each call of a resource manager into a journal, and replays them after a restart.

    An entry has the call, all that the manager read through its ports meanwhile (time, estimates, readings),
    and its orders. These are sent once the entry is durable: a call whose entry is not in the journal never
    happened, and its notice has not been acknowledged. So whatever a manager holds (queues, runs, plans,
    reservations, promises) is as it was, provided that it decides by what it reads alone. After a restart,
    only the last call's orders are sent again, before the next call, since these may not have left; run ids
    make them idempotent. A restart costs as much as all calls in the journal.

    Raises JournalMismatch if the manager made anew reads more or less than the journal says, or orders
    something else."""

    def __init__(self, ports: Ports, make: Make, journal: Journal) -> None:
        """`make` makes the manager, given its ports."""
        self._journal = journal
        self._ports = ports
        self._tape = _Tape()
        self._orders: list[tuple[str, tuple[Any, ...]]] = []
        self._unsent: Sequence[tuple[str, tuple[Any, ...]]] = ()
        """Orders of the last call before a restart, which may not have been sent."""
        self._made = make
        entries = iter(journal.entries())
        if (first := next(entries, None)) is None:
            self._call(MADE)
            return
        for entry in chain((first,), entries):
            self._repeat(entry)
        self._tape.record()

    def handle(self, notice: Notice) -> str | None:
        refusal: str | None = self._call(METHOD_OF[type(notice)], *arguments_of(notice))
        return refusal

    def run_round(self) -> None:
        self._call("run_round")

    def _call(self, method: str, *arguments: Any) -> Any:
        unsent, self._unsent = self._unsent, ()
        self._send(unsent)
        self._tape.record()
        result = self._done(method, arguments)
        orders, self._orders = tuple(self._orders), []
        self._journal.append(JournalEntry(method, arguments, self._tape.recorded(), orders))
        self._send(orders)
        return result

    def _repeat(self, entry: JournalEntry) -> None:
        self._tape.play(entry.reads)
        try:
            self._done(entry.method, entry.arguments)
        except Exception:  # any that the manager makes of a mismatch at which reading more has raised
            if self._tape.left >= 0:
                raise
        orders, self._orders = tuple(self._orders), []
        if orders != entry.orders or self._tape.left:
            raise JournalMismatch(
                f"{entry.method} had other effects than before the restart; {DECIDES_BY_READS}"
            )
        self._unsent = orders

    def _done(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if method == MADE:
            taped: dict[str, Any] = {
                name: _Taped(port, self._tape, self._note)
                for name in PORTS
                if (port := getattr(self._ports, name, None)) is not None
            }
            self._manager = self._made(replace(self._ports, **taped))
            return None
        if method == "run_round":
            return self._manager.run_round()
        notice = notice_of(method, arguments)
        if notice is None:  # the file may be damaged, or foreign
            raise JournalMismatch(f"the journal has a call of '{method}', which is no notice to a manager")
        return self._manager.handle(notice)

    def _note(self, method: str, *arguments: Any) -> None:
        if method == "dispatch" and not isinstance(arguments[0].machines, tuple | NodeSet):
            order: DispatchOrder = arguments[0]
            arguments = (order._replace(machines=tuple(order.machines)),)  # arrays cannot be compared
        self._orders.append((method, arguments))

    def _send(self, orders: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        for method, arguments in orders:
            port = {"record": "experience", "learn": "run_times"}.get(method, "dispatcher")
            getattr(getattr(self._ports, port), method)(*arguments)


class _Tape:
    """Records what is read through ports, or replays it."""

    def __init__(self) -> None:
        self.record()

    def record(self) -> None:
        self._reads: list[Any] = []
        self._n_played: int | None = None

    def play(self, reads: Sequence[Any]) -> None:
        self._reads, self._n_played = [*reads], 0

    def recorded(self) -> tuple[Any, ...]:
        return tuple(self._reads)

    @property
    def left(self) -> int:
        """How many reads are still to be played; negative if there were more than are on it."""
        return len(self._reads) - (self._n_played or 0)

    def read(self, method: Callable[..., Any], *arguments: Any) -> Any:
        if self._n_played is None:
            self._reads.append(method(*arguments))
            return self._reads[-1]
        self._n_played += 1
        if self.left < 0:
            raise JournalMismatch(f"something was read that was not read before; {DECIDES_BY_READS}")
        return self._reads[self._n_played - 1]


class _Taped:
    """A port: what is read through it is on the tape, and orders, which return nothing, are noted."""

    def __init__(self, port: Any, tape: _Tape, note: Callable[..., None]) -> None:
        self._port = port
        self._tape = tape
        self._note = note

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "now_s":
            return self._tape.read(lambda: self._port.now_s)
        if name in READS:
            return partial(self._tape.read, getattr(self._port, name))
        return partial(self._note, name)


Make = Callable[[Ports], Manager]


def dependable(
    make: Make,
    timeouts: Timeouts = DEFAULT,
    max_batch_requeue: int | None = None,
    journal: Journal | None = None,
) -> Make:
    """Wrap what makes a manager, so that its ports may have an `UnreliableDispatcher`.

    Jobs are requeued `max_batch_requeue` times after failed runs (None: without limit). With a journal, the
    manager continues from it."""

    def limited(ports: Ports) -> Manager:
        manager = make(ports)
        if max_batch_requeue is None:
            return manager
        orders: Any = ports.dispatcher
        return RequeueLimit(manager, max_batch_requeue, orders.give_up)

    def delivered(ports: Ports) -> Manager:
        return ReliableDelivery(ports, limited, timeouts)

    if journal is None:
        return delivered
    return lambda ports: JournalledManager(ports, delivered, journal)
