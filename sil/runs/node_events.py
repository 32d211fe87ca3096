"""What operators do with the nodes of a log, for schedulers other than Slurm's controller: drains, outages
and reservations as changes of the simulated world; and which schedulers know of which events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scheduler import UserError
from scheduler.messages import counted
from scheduler.node_resources.core.codes import MAX_RESERVATIONS
from scheduler.ports import DrainChanged, ReservationMade
from sil.runs.under_test import InProcess, SlurmProgram, UnderTest
from sil.settings.log_events import Events, NodesReserved, NodesUpdated
from sil.world.events import StateChange
from sil.world.failures import TimedChange
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.machine_names import expand, patterns

MODELLED_FLAGS = ("MAINT", "IGNORE_JOBS", "SPEC_NODES", "OVERLAP")


def changes_of(events: Events, cluster: SiteNodes) -> tuple[TimedChange, ...]:
    """The changes of nodes, in order of time. Raises UserError for nodes that the cluster does not have."""
    return tuple(_Changes(cluster).of(events))


def unable(
    events: Events, is_closed_loop: bool, schedulers: Iterable[UnderTest]
) -> Iterator[tuple[str, str]]:
    """The schedulers that cannot carry events out, or replay a closed loop, by name, and why."""
    for each in schedulers:
        lacks = ["closed loop"] if is_closed_loop else []
        lacks += ["commands for events"] if events and not isinstance(each, SlurmProgram) else []
        if lacks and (not isinstance(each, InProcess) or each.has_own_queue):
            why = f"has its own queue, and no {lacks[0]}; leave one of the two out"
            yield each.label, f"scheduler '{each.label}' {why}"


def notes_for(events: Events, schedulers: Iterable[UnderTest]) -> list[str]:
    """What of the events is not modelled under these schedulers."""
    if all(isinstance(each, SlurmProgram) for each in schedulers):
        return [*events.notes]
    return [*events.notes, *events.only_of_slurm, *notes_on(events)]


def notes_on(events: Events) -> list[str]:
    """What of the reservations is not modelled, a sentence each."""
    flags = Counter(
        flag.upper() for event in events.on_nodes if isinstance(event, NodesReserved) for flag in event.flags
    )
    return [
        f"flag {flag} of {counted(n, 'reservation')} is not modelled: only Slurm's controller knows it"
        for flag, n in sorted(flags.items())
        if flag not in MODELLED_FLAGS
    ]


class _Changes:
    def __init__(self, cluster: SiteNodes) -> None:
        self._place = {name: n for n, name in enumerate(cluster.nodes)}
        self._down, self._drained = set[int](), set[int]()
        self._made: list[NodesReserved] = []
        self._nodes_of: list[tuple[int, ...]] = []

    def of(self, events: Events) -> Iterator[TimedChange]:
        for k, event in enumerate(events.on_nodes):
            at_s = max(event.at_s, 0.0)
            if isinstance(event, NodesReserved):
                if event.end_s > at_s:
                    nodes = self._reserved(event)
                    yield at_s, ReservationMade(event.name, nodes, event.start_s, event.end_s)
                continue
            nodes = self._named(event.nodes, f"State={event.state}")
            if event.state == "DRAIN":
                yield from self._drain(at_s, nodes, True, event.reason)
            elif event.state == "DOWN":
                later = (each for each in events.on_nodes[k:] if isinstance(each, NodesUpdated))
                lasts = all(each.state != "RESUME" for each in later)
                yield from self._set_up(at_s, nodes, False, lasts)
            else:
                yield from self._set_up(at_s, nodes, True)
                yield from self._drain(at_s, nodes, False)

    def _drain(
        self, at_s: float, nodes: Sequence[int], is_drained: bool, reason: str = ""
    ) -> Iterator[TimedChange]:
        changed = tuple(n for n in nodes if (n in self._drained) != is_drained)
        self._drained.symmetric_difference_update(changed)
        if changed:
            yield at_s, DrainChanged(changed, is_drained, reason)

    def _set_up(
        self, at_s: float, nodes: Sequence[int], is_up: bool, lasts: bool = False
    ) -> Iterator[TimedChange]:
        changed = tuple(n for n in nodes if (n in self._down) == is_up)
        self._down.symmetric_difference_update(changed)
        if changed:
            yield at_s, StateChange(changed, is_up, lasts)

    def _named(self, nodes: str, what: str) -> tuple[int, ...]:
        try:
            names = [*self._place] if nodes.upper() == "ALL" else expand(patterns(nodes))
        except ValueError as error:
            raise UserError(f"{what}: {error}") from None
        if unknown := next((name for name in names if name not in self._place), None):
            raise UserError(f"{what}: there is no node '{unknown}'; expected names of the log's nodes")
        return tuple(sorted({self._place[name] for name in names}))

    def _reserved(self, event: NodesReserved) -> tuple[int, ...]:
        """The nodes of a reservation; of a number, the last ones that no other reservation has then."""
        what = f"reservation '{event.name}'"
        taken, n_known = set[int](), 1
        for other, nodes in zip(self._made, self._nodes_of, strict=True):
            n_known += other.end_s > event.at_s
            if other.start_s < event.end_s and event.start_s < other.end_s:
                taken.update(nodes)
        if n_known > MAX_RESERVATIONS:
            raise UserError(f"{what}: {n_known} are known at a time; expected at most {MAX_RESERVATIONS}")
        if isinstance(event.nodes, str):
            found = self._named(event.nodes, what)
        else:
            left = [n for n in range(len(self._place)) if n not in taken]
            if len(left) < event.nodes:
                raise UserError(
                    f"{what}: n_nodes is {event.nodes}, and {counted(len(left), 'node')} of "
                    f"{len(self._place)} are in no other reservation then; expected at most as many"
                )
            found = tuple(left[len(left) - event.nodes :])
        self._made.append(event)
        self._nodes_of.append(found)
        return found
