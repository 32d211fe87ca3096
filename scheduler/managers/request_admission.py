"""Which jobs nodes of partitions can ever run, and in which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from scheduler import counted
from scheduler.node_request import Partition, Request
from scheduler.node_resources.described import DescribedNodes


class RequestAdmission:
    """A job that never fits, or that no partition it requests admits, is refused when it arrives.

    Of several partitions, those that admit it count. A job of one chunk runs in any of these. One of several
    chunks must not have nodes of different partitions: it runs in the one with room for most of its chunks
    (ties: by name).
    """

    def __init__(self, nodes: DescribedNodes, partitions: Mapping[str, Partition]) -> None:
        self._nodes = nodes
        self._partitions = partitions
        self._names = partitions.keys() | {name for node in nodes.all for name in node.partitions}

    def admitted(self, request: Request, time_limit_s: float | None) -> Request | str:
        """The request in the partitions that count; or why a job with it is refused, "requests ..."."""
        refusals = {name: self._refusal(name, request, time_limit_s) for name in sorted(request.partitions)}
        admitting = frozenset(name for name, why in refusals.items() if why is None)
        if refusals and not admitting:
            return f"requests {' and '.join(filter(None, refusals.values()))}"
        if admitting != request.partitions:
            request = replace(request, partitions=admitting)
        beyond = request.beyond(self._nodes.site_resources)
        if beyond is not None:
            return f"requests {request}; the site has {beyond}"
        most = self._nodes.most_chunks(request)
        if most < request.chunks:
            return f"requests {request}{request.where}; {_how_many(request, most)}"
        if request.chunks > 1 and len(admitting) > 1:
            request = replace(request, partitions=frozenset((self._largest(request, admitting),)))
        return request

    def _largest(self, request: Request, partitions: frozenset[str]) -> str:
        def room(name: str) -> int:
            return self._nodes.most_chunks(replace(request, partitions=frozenset((name,))))

        return max(sorted(partitions), key=room)

    def _refusal(self, name: str, request: Request, time_limit_s: float | None) -> str | None:
        """What a job requests that a partition does not allow; None if it admits the job."""
        if name not in self._names:
            return f"partition {name}, which the site does not have"
        return self._partitions.get(name, Partition(name)).refusal(request, time_limit_s)


def _how_many(request: Request, most: int) -> str:
    noun = "node" if request.most_on_node == 1 else "task"
    if most == 0:
        return f"no {noun} has room for it"
    return f"there is room for {counted(most, f'such {noun}')}"
