"""What runs use of nodes with cores, memory and GPUs."""

from __future__ import annotations

from scheduler.model import JobId, Share
from scheduler.node_request import Request
from sil.outcome.invariants.breach import NO_RESOURCE_ABOVE_CAPACITY, Breach, Capacity
from sil.trace.requests import request_of, shares_of
from sil.world.node_usage import NodeUsage


class SharesChecker:
    """Counts what the runs use of each node, and of the site's resources."""

    def __init__(self, capacity: Capacity) -> None:
        self._usage = NodeUsage(capacity.nodes, capacity.site_resources)
        self.requests: dict[int, str | None] = {}
        """What each job requests, as it is written in the trace."""
        self._used: dict[int, tuple[Request, tuple[Share, ...]]] = {}

    def started(self, time_s: float, job: int, run: int, uses: str | None, machines: int) -> Breach | None:
        request, shares = request_of(self.requests[job] or "{}"), shares_of(uses or "")
        why = self._usage.why_not(request, shares)
        if why is None and sum(1 << node for node in {share.node for share in shares}) != machines:
            why = "its shares are on other nodes"
        if why is not None:
            message = f"job {job} starts at {time_s:.12g} s, but {why}"
            return Breach(NO_RESOURCE_ABOVE_CAPACITY, JobId(job), message)
        self._usage.take(request, shares)
        self._used[run] = request, shares
        return None

    def stopped(self, run: int) -> None:
        self._usage.suspend(*self._used[run])

    def continued(self, run: int) -> str | None:
        """Why the run cannot continue, as part of a sentence; None if it can."""
        why = self._usage.why_not_resumed(*self._used[run])
        if why is not None:
            return f", but {why}"
        self._usage.resume(*self._used[run])
        return None

    def over(self, run: int, is_stopped: bool) -> None:
        used = self._used.pop(run)
        if is_stopped:
            self._usage.resume(*used)
        self._usage.give_back(*used)
