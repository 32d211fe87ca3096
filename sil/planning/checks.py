"""How a plan fits its site: what is wrong, which nodes offers add, and which part of offers has no effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler import UserError
from scheduler.messages import counted, plural
from scheduler.node_request import Node, Request
from sil.outcome.metrics import OF_GPUS, OF_REQUESTED
from sil.planning.load import any_runs_on
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import GoalTable, Mistakes, Plan
from sil.planning.sites import OnSite
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.scenario import DoesNotFit, Scenario
from sil.settings.notional import NO_TIME_CHANGES, NotionalTable
from sil.site.what_if_site import InapplicableChange
from sil.workload.job_log import JOB_CLASS, queue_of
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.nodes import cluster_of, requests_at
from site_db.site_file.tables import SiteFile


def mistakes(
    plan: Plan,
    site: OnSite,
    offers: Sequence[Option],
    policies: Sequence[Option],
    retirements: Sequence[Option],
) -> Mistakes:
    today = site.scenario(AS_IT_IS)
    has_nodes = today.in_use.has_nodes
    yield from plan.without_effect()
    for k, goal in enumerate(plan.goals):
        yield from _of_goal(k, goal, today)
    if plan.retire is not None:
        known = sorted({machine.machine_class for machine in today.in_use.site.machines})
        unknown = [(k, name) for k, name in enumerate(plan.retire.machine_classes) if name not in known]
        for k, name in unknown:
            sentence = f"the site has no machine class '{name}'; it has {', '.join(known)}"
            yield ("retire", "machine_classes", k), sentence
        if not retirements and not unknown:
            where = "partitions" if has_nodes else "clusters"
            sentence = f"there are not {plan.retire.count} machines of one class in the same {where} anywhere"
            yield ("retire", "count"), sentence
    for k, option in enumerate(offers):
        try:
            site.in_use(option)
        except InapplicableChange as error:
            yield ("offers", k, "changes", error.place), str(error)
        except UserError as error:
            yield from ((("offers", k, "scheduler"), line) for line in str(error).splitlines())
    for k, option in enumerate(policies):
        try:
            site.in_use(option)
        except DoesNotFit as error:
            yield from ((("policies", k, "policy"), sentence) for _, sentence in error.mistakes)


def _of_goal(k: int, goal: GoalTable, today: Scenario) -> Mistakes:
    """The mistakes in a goal: jobs that never arrive, and metrics that the site does not have."""
    classes, queues = _arriving(today)
    has_nodes, metric = isinstance(today, NodesScenario), f"the goal is {goal.metric}, and"
    if goal.partition is not None and not has_nodes:
        sentence = f"the goal is of the partition '{goal.partition}', and the site has none; leave it out"
        yield ("goals", k, "partition"), sentence
    else:
        for key, name, known in (
            ("job_class", goal.job_class, classes),
            ("queue", goal.queue, queues),
            ("partition", goal.partition, queues),
        ):
            if name is not None and name not in known:
                kind, there = key.replace("_", " "), ", ".join(known)
                yield ("goals", k, key), f"no job of {kind} '{name}' ever arrives; there are {there}"
    clusters = [table.name for table in today.experiment.clusters]
    if goal.cluster is not None and goal.cluster not in clusters:
        there = f"the plan has {', '.join(clusters) or 'no [[clusters]]'}"
        yield ("goals", k, "cluster"), f"the goal is of the cluster '{goal.cluster}', and {there}"
    if goal.metric in OF_GPUS and not today.model.get("gpus"):
        yield ("goals", k, "metric"), f"{metric} the site has no GPUs; choose another metric"
    if goal.metric in [m.key for m in OF_REQUESTED] and not has_nodes:
        sentence = f"{metric} jobs of a site without partitions request no processors; choose another metric"
        yield ("goals", k, "metric"), sentence


def _arriving(today: Scenario) -> tuple[list[str], list[str]]:
    """The job classes and the queues of the jobs that arrive. On nodes without queues of their own, the queue
    of a job is that of its partitions."""
    in_use, log = today.in_use, today.in_use.log
    if log is not None:
        used = sorted(log.jobs["request"].unique().to_list())
        classes = dict.fromkeys(log.job_classes[k] for k in used) if log.job_classes else {JOB_CLASS: None}
        return list(classes), list(dict.fromkeys(queue_of(log.requests[k]) for k in used))
    workload = today.experiment.drawn
    names = list(workload.mix) or [job_class.name for job_class in in_use.site.job_classes]
    if isinstance(today, NodesScenario) and not today.has_queues:
        requests = requests_at(in_use.file, cluster_of(in_use.file))
        return names, list(dict.fromkeys(queue_of(requests[name]) for name in names))
    return names, list(workload.queues) or [in_use.queues[0][0].name]


# -- notes on offers -----------------------------------------------------------------------------------------


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
    partitions = [(table.name, frozenset(table.nodes)) for table in file.partitions]
    return {
        name: (group.machine_class, tuple(place for place, nodes in partitions if name in nodes))
        for group in file.machines
        for name in group.names
    }


OF_TIMES = ("like", "times_as_fast", "sequential_s", "rating", "uncertainty")
SPEEDS = {"like", "sequential_s", "rating"}


def idle_parts(site: OnSite, offers: Sequence[Option]) -> Iterator[str]:
    """A sentence for each part of an offer that has no effect."""
    today = site.in_use(AS_IT_IS)
    if not today.has_nodes:
        for option in offers:
            if any(change.leaves_times for change in option.changes):
                yield f"'{option.name}': {NO_TIME_CHANGES}."
        return
    before, known = cluster_of(today.file), {table.machine_class for table in today.file.machines}
    for option in offers:
        after = cluster_of(site.in_use(option).file)
        of_times = [s for change in option.changes for s in _of_times(change, today.log is not None, known)]
        for sentence in dict.fromkeys((*of_times, *_of_nodes(before, after, site.requests()))):
            yield f"'{option.name}': {sentence}."


def _of_times(change: NotionalTable, is_observed: bool, known: set[str]) -> Iterator[str]:
    given = [key for key in OF_TIMES if key in change.given]
    if is_observed and given:
        have = "has" if len(given) == 1 else "have"
        yield f"{' and '.join(given)} {have} no effect, since past jobs run as long as they did, on any node"
    parsed = change.parsed()
    new = {"add": parsed.what, "upgrade": parsed.to}.get(change.verb)
    if not is_observed and new is not None and new not in known and not SPEEDS & change.given:
        yield (
            f"nothing is said of the speed of '{new}', on which jobs run as long as on the other machine "
            f"classes on average (like, sequential_s or rating says how fast it is)"
        )


def _of_nodes(before: SiteNodes, after: SiteNodes, requests: Sequence[Request]) -> Iterator[str]:
    """Added or changed nodes that no job can use, and what no job requests of them."""
    added = [node for name, node in after.nodes.items() if name not in before.nodes]
    if added and not any_runs_on(added, requests):
        yield "no job of the forecast can run on the added nodes"
    pairs = {
        (old.specification, node.specification): (_resources(old), node)
        for name, node in after.nodes.items()
        if (old := before.nodes.get(name)) is not None and old.specification != node.specification
    }
    changed: dict[str, list[Node]] = {}
    for had, node in pairs.values():
        has = _resources(node)
        for resource in dict.fromkeys((*has, *had)):
            if has.get(resource) != had.get(resource):
                changed.setdefault(resource, []).append(node)
    for resource, nodes in changed.items():
        asking = [request for request in requests if _asks(request, resource)]
        if not any(request.may_use(node) for node in nodes for request in asking):
            yield f"no job of the forecast that may run on the changed nodes requests {resource}"


def _resources(node: Node) -> dict[str, object]:
    features = {f"the feature {name}": True for name in sorted(node.features)}
    amounts = {"cores": node.cores, "memory": node.memory_mib, "GPUs": sorted(node.gpus)}
    return {**amounts, **node.others, **features}


def _asks(request: Request, resource: str) -> bool:
    amounts = {"cores": request.cores, "memory": request.memory_mib, "GPUs": request.n_gpus, **request.others}
    features = {name for each in request.features for name in each.split("|")}
    return bool(amounts.get(resource)) or resource.removeprefix("the feature ") in features
