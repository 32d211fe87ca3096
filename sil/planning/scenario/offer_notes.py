"""Notes on offers: in which partitions the nodes are that they add, and which part of them has no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler.messages import counted, plural
from scheduler.node_request import Node, Request
from sil.planning.options import AS_IT_IS, Option
from sil.planning.scenario.node_demand import any_runs_on, specification
from sil.planning.scenario.on_site import OnSite
from sil.settings.notional import NO_TIME_CHANGES, NotionalTable
from site_db.site_file.cluster import Cluster
from site_db.site_file.nodes import cluster_of
from site_db.site_file.tables import SiteFile


def added_nodes(site: OnSite, offers: Sequence[Option]) -> Iterator[str]:
    """A sentence for each kind of nodes that an offer adds; none where the site has no partitions."""
    today = site.in_use(AS_IT_IS)
    if not today.has_nodes:
        return
    before = _kinds(today.file)
    for option in offers:
        after = _kinds(site.in_use(option).file)
        added = Counter(kind for name, kind in after.items() if name not in before)
        for (machine_class, partitions), n in added.items():
            where = f"{plural(len(partitions), 'partition')} {' and '.join(partitions)}"
            yield f"'{option.name}' adds {counted(n, 'node')} of class {machine_class} to {where}"


def _kinds(file: SiteFile) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The class and the partitions of each node."""
    partitions = [(table.name, frozenset(table.nodes)) for table in file.partitions]
    return {
        name: (group.machine_class, tuple(place for place, nodes in partitions if name in nodes))
        for group in file.machines
        for name in group.names
    }


OF_TIMES = ("like", "times_as_fast", "sequential_s", "rating", "uncertainty")
SPEEDS = {"like", "sequential_s", "rating"}


def without_effect(site: OnSite, offers: Sequence[Option]) -> Iterator[str]:
    """A sentence for each part of an offer that has none."""
    today = site.in_use(AS_IT_IS)
    if not today.has_nodes:
        for option in offers:
            if any(change.leaves_times for change in option.changes):
                yield f"'{option.name}': {NO_TIME_CHANGES}."
        return
    requests = site.requests()
    before, known = cluster_of(today.file), {table.machine_class for table in today.file.machines}
    for option in offers:
        after = cluster_of(site.in_use(option).file)
        of_times = [s for change in option.changes for s in _of_times(change, today.log is not None, known)]
        for sentence in dict.fromkeys((*of_times, *_of_nodes(before, after, requests))):
            yield f"'{option.name}': {sentence}."


def _of_times(change: NotionalTable, is_observed: bool, known: set[str]) -> Iterator[str]:
    said = [key for key in OF_TIMES if key in change.given]
    if is_observed and said:
        have = "has" if len(said) == 1 else "have"
        yield f"{' and '.join(said)} {have} no effect, since past jobs run as long as they did, on any node"
    parsed = change.parsed()
    new = {"add": parsed.what, "upgrade": parsed.to}.get(change.verb)
    if not is_observed and new is not None and new not in known and not SPEEDS & change.given:
        yield (
            f"nothing is said of the speed of '{new}', on which jobs run as long as on the other machine "
            f"classes on average (like, sequential_s or rating says how fast it is)"
        )


def _of_nodes(before: Cluster, after: Cluster, requests: Sequence[Request]) -> Iterator[str]:
    """Added or changed nodes that no job can use, and what no job requests of them."""
    added = [node for name, node in after.nodes.items() if name not in before.nodes]
    if added and not any_runs_on(added, requests):
        yield "no job of the forecast can run on the added nodes"
    for resource, new in _changed(before, after).items():
        if not any(
            request.may_use(node) and _asks(request, resource) for node in new for request in requests
        ):
            yield f"no job of the forecast that may run on the changed nodes requests {resource}"


def _changed(before: Cluster, after: Cluster) -> dict[str, list[Node]]:
    """By resource, the nodes that have more or less of it than before."""
    pairs = {
        (specification(old), specification(node)): (old, node)
        for name, node in after.nodes.items()
        if (old := before.nodes.get(name)) is not None and specification(old) != specification(node)
    }
    found: dict[str, list[Node]] = {}
    for old, node in pairs.values():
        has, had = _resources(node), _resources(old)
        for resource in (*has, *(name for name in had if name not in has)):
            if has.get(resource) != had.get(resource):
                found.setdefault(resource, []).append(node)
    return found


def _resources(node: Node) -> dict[str, object]:
    return {"cores": node.cores, "memory": node.memory_mib, "GPUs": sorted(node.gpus), **node.others} | {
        f"the feature {name}": True for name in sorted(node.features)
    }


def _asks(request: Request, resource: str) -> bool:
    amounts = {"cores": request.cores, "memory": request.memory_mib, "GPUs": request.n_gpus, **request.others}
    features = {name for each in request.features for name in each.split("|")}
    return bool(amounts.get(resource)) or resource.removeprefix("the feature ") in features
