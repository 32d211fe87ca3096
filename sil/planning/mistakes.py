"""What in a plan file does not fit its site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sil.outcome.metrics import OF_GPUS, OF_REQUESTED
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.scenario.on_site import OnSite
from sil.runs.scenario import Scenario
from sil.site.what_if_site import InapplicableChange
from sil.workload.job_log import JOB_CLASS, queue_of
from site_db.files.toml_file import Location
from site_db.site_file.nodes import cluster_of, requests_at

Mistakes = Iterator[tuple[Location, str]]
"""Places in the file, and a sentence about each."""


def mistakes(plan: Plan, site: OnSite, offers: Sequence[Option], retirements: Sequence[Option]) -> Mistakes:
    today = site.scenario(AS_IT_IS)
    for key, on in plan.without_effect(today.in_use.has_nodes):
        yield tuple(key.split(".")), f"{key} has no effect on {on}; leave it out"
    has_gpus = bool(today.model.get("gpus"))
    for k, goal in enumerate(plan.goals):
        yield from _of_goal(k, goal, today)
        if goal.metric in OF_GPUS and not has_gpus:
            sentence = f"the goal is {goal.metric}, and the site has no GPUs; choose another metric"
            yield ("goals", k, "metric"), sentence
        if goal.metric in [m.key for m in OF_REQUESTED] and not today.in_use.has_nodes:
            sentence = (
                f"the goal is {goal.metric}, and jobs of a site without partitions request no processors"
            )
            yield ("goals", k, "metric"), f"{sentence}; choose another metric"
    if plan.retire is not None:
        known = sorted({machine.machine_class for machine in today.in_use.site.machines})
        unknown = [(k, name) for k, name in enumerate(plan.retire.machine_classes) if name not in known]
        for k, name in unknown:
            sentence = f"the site has no machine class '{name}'; it has {', '.join(known)}"
            yield ("retire", "machine_classes", k), sentence
        if not retirements and not unknown:
            where = "partitions" if today.in_use.has_nodes else "clusters"
            sentence = f"there are not {plan.retire.count} machines of one class in the same {where} anywhere"
            yield ("retire", "count"), sentence
    for k, option in enumerate(offers):
        try:
            site.in_use(option)
        except InapplicableChange as error:
            yield ("offers", k, "changes", error.place), str(error)


def _of_goal(k: int, goal: GoalTable, today: Scenario) -> Mistakes:
    """Jobs that never arrive."""
    classes, queues = _arriving(today)
    if goal.partition is not None and not today.in_use.has_nodes:
        sentence = f"the goal is of the partition '{goal.partition}', and the site has none; leave it out"
        yield ("goals", k, "partition"), sentence
        return
    for key, name, known in (
        ("job_class", goal.job_class, classes),
        ("queue", goal.queue, queues),
        ("partition", goal.partition, queues),
    ):
        if name is not None and name not in known:
            kind, there = key.replace("_", " "), ", ".join(known)
            yield ("goals", k, key), f"no job of {kind} '{name}' ever arrives; there are {there}"


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
    has_queues = bool(today.experiment.queues or in_use.file.queues)
    if in_use.has_nodes and not has_queues:
        requests = requests_at(in_use.file, cluster_of(in_use.file))
        return names, list(dict.fromkeys(queue_of(requests[name]) for name in names))
    return names, list(workload.queues) or [in_use.queues[0][0].name]
