"""An experiment on shared nodes: its file and its site as a cluster, jobs and predictors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from scheduler import registry
from scheduler.managers.forecasting import Prediction
from scheduler.model import Job
from scheduler.naming import Misnamed
from scheduler.ports import Scheduler
from scheduler.time_shared.prediction import by_name
from scheduler.time_shared.prediction.forecast import Predictor
from scheduler.time_shared.prediction.promises import PromisesByForecast
from sil.runs.inputs import spread
from sil.runs.on_time_shared import SharedCluster, SharedRun, Surroundings, run_on_shared_nodes
from sil.runs.random_streams import stream
from sil.runs.under_test import brings_its_manager
from sil.runs.what_if_scheduler import imagined
from sil.settings.experiment_file import Experiment
from sil.settings.time_shared_table import SharedNodesTable
from sil.site.error_histories import NOTHING, histories
from sil.site.site_in_use import SiteInUse
from sil.site.time_shared_cluster import NodesOfSite, NotShared
from sil.trace.tables import LOCAL_USERS_SCHEMA, PREDICTIONS_SCHEMA
from sil.workload.local_load import LocalLoad
from sil.world.clock import SimClock
from sil.world.machines.sharing import ByCpu, ByMpl, Coupled, Fluid, Sharing
from sil.world.node_monitors import Sampling
from site_db.characterisations import Characterisations
from site_db.toml_file import Location


def problems_on_shared_nodes(experiment: Experiment, in_use: SiteInUse) -> Iterator[tuple[Location, str]]:
    """What does not fit the site: (place in the experiment file, sentence)."""
    table = _table(experiment)
    try:
        nodes = NodesOfSite.of(in_use.file, table.cluster)
    except NotShared as error:
        yield ("shared_nodes", "cluster"), str(error)
        return
    for point in range(len(experiment.points)):
        overhead, share = _table(experiment.at(point)).coscheduling.overhead, nodes.contract.share
        if overhead >= share:
            yield (
                ("shared_nodes", "coscheduling", "overhead"),
                f"coscheduling that costs {overhead:g} of a CPU leaves nothing of the {share:g} that the "
                f"social contract guarantees to parallel tasks; the overhead has to be less",
            )
            break
    sizes = Characterisations.of_site(in_use.file).sizes()
    for name in experiment.workload.mix or [k.name for k in in_use.file.job_classes]:
        if name not in sizes:
            place: Location = ("workload", "mix", name) if experiment.workload.mix else ("site",)
            yield (
                place,
                f"the job class '{name}' was never measured in isolation (job_classes.in_isolation), so "
                f"nothing is known of it on shared nodes; measure it, or leave it out of workload.mix",
            )
    for name, tasks in table.tasks.items():
        if name not in sizes:
            yield ("shared_nodes", "tasks", name), f"the site has no job class '{name}' for shared nodes"
        elif not set(tasks) <= set(sizes[name]):
            never = ", ".join(map(str, sorted(set(tasks) - set(sizes[name]))))
            yield (
                ("shared_nodes", "tasks", name),
                f"'{name}' was never measured in isolation with {never} tasks, but with "
                f"{', '.join(map(str, sizes[name]))}",
            )


def cannot_predict(experiment: Experiment) -> Iterator[str]:
    """Which predictors are left out for which scheduler, and why: a sentence each."""
    for name in experiment.schedulers:
        for label in _table(experiment).predictors:
            why = _why_not(name, label)
            if why is not None:
                yield f"for scheduler '{name}' the predictor '{label}' is left out: {why}"


def cannot_promise(experiment: Experiment) -> Iterator[str]:
    """Under which schedulers nothing could be promised, and why: a sentence each."""
    promises = promises_of(experiment)
    if promises is None:
        return
    for name in experiment.schedulers:
        why = _why_not(name, promises.predictor)
        if why is not None:
            yield f"scheduler '{name}': limits are promised by a predictor that does not fit it: {why}"


def _why_not(scheduler: str, predictor: str) -> str | None:
    """Why a predictor cannot follow a scheduler; None where it can."""
    if brings_its_manager(scheduler):
        return "it keeps a queue of its own, of which no predictor knows"
    try:
        by_name.make(by_name.read(predictor), registry.load(scheduler)(), lambda _: NOTHING)
    except Misnamed as error:
        return str(error)
    return None


def sizes_of_jobs(experiment: Experiment, in_use: SiteInUse) -> Mapping[str, list[int]]:
    """The numbers of tasks that jobs of each class may have."""
    measured = Characterisations.of_site(in_use.file).sizes()
    return measured | {name: list(tasks) for name, tasks in _table(experiment).tasks.items()}


def with_limits(experiment: Experiment, in_use: SiteInUse, jobs: list[Job], replication: int) -> list[Job]:
    """The jobs with the turnaround limits that they ask for."""
    limits = _table(experiment).limits
    if limits is None:
        return jobs
    known = _nodes(experiment, in_use).known
    times = stream(experiment.seed, replication, "limits").uniform(*limits.times_alone, len(jobs)).tolist()
    needs = [known.requirement(job) for job in jobs]
    return [
        job if needed is None else job._replace(limit_s=times_alone * needed.exe_s)
        for job, needed, times_alone in zip(jobs, needs, times, strict=True)
    ]


def promises_of(experiment: Experiment) -> PromisesByForecast | None:
    """What decides about these limits."""
    table = _table(experiment)
    if table.limits is None:
        return None
    return PromisesByForecast(table.limits.predictor or table.predictors[0], table.limits.margin)


def run_shared(
    experiment: Experiment,
    in_use: SiteInUse,
    jobs: list[Job],
    name: str,
    scheduler: Scheduler | None,
    replication: int,
    clock: SimClock,
    around: Surroundings,
) -> SharedRun:
    """One run of the harness on the shared nodes of an experiment; `name` is that of the scheduler, or of who
    manages the nodes itself (then there is no `scheduler`)."""
    return run_on_shared_nodes(
        _cluster(experiment, in_use),
        jobs,
        _nodes(experiment, in_use).known,
        name,
        scheduler,
        _predictors(experiment, in_use, name, clock),
        experiment.seed,
        replication,
        clock,
        around,
    )


def _table(experiment: Experiment) -> SharedNodesTable:
    if experiment.shared_nodes is None:
        raise LookupError("the experiment has no shared nodes")
    return experiment.shared_nodes


def _nodes(experiment: Experiment, in_use: SiteInUse) -> NodesOfSite:
    return NodesOfSite.of(in_use.file, _table(experiment).cluster)


def _cluster(experiment: Experiment, in_use: SiteInUse) -> SharedCluster:
    table, nodes = _table(experiment), _nodes(experiment, in_use)
    users, monitors = table.local_users, table.monitors
    return SharedCluster(
        memory_mb=nodes.memory_mb,
        contract=nodes.contract,
        local_load=None if users is None or not users.share_of_nodes else LocalLoad(**users.model_dump()),
        sharing=_sharing(table),
        sampling=Sampling(**monitors.model_dump()),
        run_to_run=spread(experiment),
        control_delay_s=table.coscheduling.control_delay_s,
    )


def _sharing(table: SharedNodesTable) -> Sharing:
    match table.sharing:
        case "fluid":
            return Fluid(coscheduling_loss=table.coscheduling.loss, overhead=table.coscheduling.overhead)
        case "coupled":
            return Coupled(coscheduling_loss=table.coscheduling.loss, overhead=table.coscheduling.overhead)
        case "by_mpl":
            return ByMpl()
        case "by_cpu":
            return ByCpu()


def _predictors(
    experiment: Experiment, in_use: SiteInUse, name: str, clock: SimClock
) -> dict[str, Predictor]:
    """Each has a scheduler of its own: the live one must not hear what is only imagined."""
    errors_of = histories(in_use.errors, _nodes(experiment, in_use).known, name)
    return {
        label: by_name.make(
            by_name.read(label), imagined(name, clock, experiment.guard.decision_limit_s), errors_of
        )
        for label in _table(experiment).predictors
        if _why_not(name, label) is None  # which `cannot_predict` has told
    }


def predictions_frame(
    predictions: list[Prediction], point: int, replication: int, scheduler: str
) -> pl.DataFrame:
    """What was predicted in one run, as rows of predictions.parquet."""
    rows = [
        (
            point,
            replication,
            scheduler,
            p.made_s,
            p.predictor,
            p.forecast.job,
            p.jobs_there,
            p.forecast.start_s,
            p.forecast.end_s,
            p.forecast.low_s,
            p.forecast.high_s,
        )
        for p in predictions
    ]
    return pl.DataFrame(rows, schema=PREDICTIONS_SCHEMA, orient="row")


def local_users_frame(done: SharedRun, point: int, replication: int, scheduler: str) -> pl.DataFrame:
    """How the local users of each node fared in one run."""
    rows = [
        (point, replication, scheduler, response.node, response.slowdown, response.tight_share)
        for response in done.local_responses
    ]
    return pl.DataFrame(rows, schema=LOCAL_USERS_SCHEMA, orient="row")
