"""The invariant of drains and reservations, followed from the facts of a replay alone."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from scheduler.model import JobId
from scheduler.rules import Violation
from sil.trace.facts import CODES, Fact, FactColumns
from sil.trace.held import intervals_in, request_of

KEPT_FROM_NODES = "no-start-where-nodes-are-drained-or-reserved"
COLUMNS = ("time_s", "event", "job", "machines", "detail", "expected_s")
_OF_NODES = Fact.NODES_DRAINED, Fact.NODES_RESUMED, Fact.NODES_RESERVED
_FOLLOWED = np.isin(
    np.arange(len(CODES)),
    [CODES[fact] for fact in (*_OF_NODES, Fact.JOB_ARRIVED, Fact.RUN_STARTED, Fact.DECISION_CHARGED)],
)


class KeptFromNodes:
    """No run starts on a drained node; nor, by its expected time, in a reservation that was known then,
    unless its job names that one, and then only inside of it while it lasts. A decision counts as of when it
    was asked for. `violation` is the first one. Follows nothing until nodes are drained or reserved."""

    def __init__(self, names: Sequence[str]) -> None:
        self.violation: Violation | None = None
        self._names, self._is_needed = names, False
        self._drained, self._own = set[int](), dict[int, str]()
        self._reserved: dict[str, tuple[float, float, set[int]]] = {}
        self._charged = -1.0, 0.0

    def add(self, facts: FactColumns) -> None:
        """Add the next facts, with COLUMNS if nodes are drained or reserved."""
        self._is_needed = self._is_needed or any(len(facts.places(fact)) for fact in _OF_NODES)
        if not self._is_needed or self.violation is not None:
            return
        frame = facts.frame(COLUMNS, np.flatnonzero(_FOLLOWED[facts.event]))
        machines = intervals_in(frame["machines"])
        rows = zip(frame.drop("machines").iter_rows(), machines, strict=True)
        for (time_s, event, job, detail, expected_s), held in rows:
            nodes = {n for first, last in held or () for n in range(first, last + 1)}
            if event == Fact.RUN_STARTED:
                why = self._why_not(time_s, nodes, self._own.get(job, ""), expected_s)
                if why is not None:
                    message = f"job {job} starts at {time_s:.12g} s {why}"
                    self.violation = Violation(KEPT_FROM_NODES, JobId(job), message)
                    return
            elif event == Fact.JOB_ARRIVED:
                if own := request_of(detail or '{"cores": 1}').reservation:
                    self._own[job] = own
            elif event == Fact.DECISION_CHARGED:
                self._charged = time_s + expected_s, expected_s
            elif event == Fact.NODES_RESERVED:
                made = json.loads(detail)
                self._reserved[made["name"]] = made["start_s"], made["end_s"], nodes
            else:
                change = (
                    self._drained.update if event == Fact.NODES_DRAINED else self._drained.difference_update
                )
                change(nodes)

    def _why_not(self, time_s: float, nodes: set[int], own: str, expected_s: float) -> str | None:
        if drained := nodes & self._drained:
            return f"on {self._names[min(drained)]}, which is drained"
        until_s = time_s + expected_s
        if time_s == self._charged[0]:
            time_s, until_s = time_s - self._charged[1], until_s - self._charged[1]
        for name, (start_s, end_s, reserved) in self._reserved.items():
            if name == own:
                if time_s < end_s and not (nodes <= reserved and start_s <= time_s and until_s <= end_s):
                    return f"outside of its reservation {name}, from {start_s:.12g} s to {end_s:.12g} s"
            elif nodes & reserved and start_s < until_s and time_s < end_s:
                node = self._names[min(nodes & reserved)]
                return f"for {expected_s:.12g} s on {node}, in reservation {name} from {start_s:.12g} s on"
        return None
