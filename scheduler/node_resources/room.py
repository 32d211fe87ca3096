"""Why a job does not fit on consumable nodes now, as a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler import plural
from scheduler.compiled import Flags
from scheduler.node_request import Request, thousandths
from scheduler.node_resources.kernels.tables import FREE, WHOLE
from scheduler.node_resources.state import NodeResources


def room_for(nodes: NodeResources, request: Request) -> str:
    """What a job requests, how many nodes have it, one condition after the other, and what the site lacks."""
    kind = nodes.kind_of(request)
    nodes.fits(kind, request.chunks)
    counts = list(_narrowing(nodes, request, kind))
    funnel = ", ".join(
        f"{'' if x == 0 else 'of these '}{count} {what}" for x, (count, what) in enumerate(counts)
    )
    if request.most_on_node != 1:
        funnel += f"; there is room for {int(nodes.requests.total[kind])} of its {request.chunks} tasks"
    of_site = site_lacks(nodes, request)
    return f"it requests {request}; {funnel}{'' if of_site is None else f'; {of_site}'}"


def site_lacks(nodes: NodeResources, request: Request) -> str | None:
    """What the site has too little of for a job, like "0 of 5 matlab are free, it requests 1".

    None if all its resources suffice. Ties: the first by name.
    """
    for (name, capacity), free in zip(nodes.site_resources.items(), nodes.table.site[FREE], strict=True):
        needs = request.site_resources.get(name, 0)
        if needs > free:
            return f"{free:,} of {capacity:,} {name} are free, it requests {needs:,}"
    return None


def _narrowing(nodes: NodeResources, request: Request, kind: int) -> Iterator[tuple[int, str]]:
    """The number of nodes left after each condition that excludes some, and the condition."""
    left: Flags = nodes.requests.eligible[kind]
    n_up = int(left.sum())
    yield n_up, f"{plural(n_up, 'node')} up{_where(request)}"
    for condition, what in _conditions(nodes, request, kind):
        narrowed = left & condition
        if narrowed.sum() < left.sum():
            yield int(narrowed.sum()), f"with {what}"
        left = narrowed


def _where(request: Request) -> str:
    features = f" with {' and '.join(sorted(request.features))}" if request.features else ""
    return request.where + features


def _conditions(nodes: NodeResources, request: Request, kind: int) -> Iterator[tuple[Flags, str]]:
    table = nodes.table
    if request.exclusive:
        yield table.n_chunks == 0, "no other job"
    names = ["free CPUs", "MiB of free memory", *(f"free {name}" for name in nodes.names)]
    for r, name in enumerate(names):
        need = int(nodes.requests.need[kind, r])
        if need:
            amount = f"{need / WHOLE:g}" if r == 0 else f"{need:,}"
            yield table.free[:, r] >= need, f"{amount} {name}"
    if request.gpus is not None:
        will_do = table.gpu_type & nodes.requests.gpu_types[kind] != 0
        n_free = (will_do & (table.gpu_free >= thousandths(request.gpus.share))).sum(axis=1)
        yield n_free >= request.gpus.count, f"{request.gpus} free"
