"""A resource manager that survives unreliable messages, failing jobs and the end of its process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.dependable.journal import Journal
from scheduler.dependable.journalled_manager import JournalledManager
from scheduler.dependable.reliable_delivery import DEFAULT, ReliableDelivery, Timeouts
from scheduler.managers.requeue_limit import RequeueLimit
from scheduler.resource_manager import Ports, ResourceManager

Make = Callable[[Ports], ResourceManager]


def dependable(
    make: Make,
    timeouts: Timeouts = DEFAULT,
    max_batch_requeue: int | None = None,
    journal: Journal | None = None,
) -> Make:
    """Makes the manager that `make` makes, for ports with an `UnreliableDispatcher`.

    Jobs are requeued `max_batch_requeue` times after failed runs (None: without limit). With a journal, the
    manager continues from it.
    """

    def limited(ports: Ports) -> ResourceManager:
        manager = make(ports)
        if max_batch_requeue is None:
            return manager
        orders: Any = ports.dispatcher
        return RequeueLimit(manager, max_batch_requeue, orders.give_up)

    def delivered(ports: Ports) -> ResourceManager:
        return ReliableDelivery(ports, limited, timeouts)

    if journal is None:
        return delivered
    return lambda ports: JournalledManager(ports, delivered, journal)
