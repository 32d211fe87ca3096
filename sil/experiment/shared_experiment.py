"""An experiment on shared nodes: its file and its site as a cluster, jobs and predictors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import inf

import polars as pl

from scheduler import registry
from scheduler.loras.queue_manager import Prediction
from scheduler.loras.rules import first_violation_on_nodes
from scheduler.loras.social_contract import SocialContract
from scheduler.model import Job
from scheduler.naming import Misnamed
from scheduler.ports import Scheduler
from scheduler.prediction import by_name
from scheduler.prediction.by_name import PredictorName
from scheduler.prediction.forecast import Predictor
from scheduler.prediction.history import Circumstances, Error, ErrorHistory
from sil.experiment.config import Experiment
from sil.experiment.shared_nodes import SharedCluster, SharedRun, Surroundings, run_on_shared_nodes
from sil.experiment.shared_nodes_table import SharedNodesTable
from sil.experiment.site_in_use import SiteInUse
from sil.outcome.run_tables import LOCAL_USERS_SCHEMA, PREDICTIONS_SCHEMA
from sil.workload.local_load import LocalLoad
from sil.world.clock import SimClock
from sil.world.guard import GuardedScheduler, Timing
from sil.world.machines.sharing import ByCpu, ByMpl, Fluid, Sharing
from sil.world.node_monitors import Sampling
from sil.world.truth import Spread
from site_db.characterisations import Characterisations
from site_db.toml_file import Location


def problems_on_shared_nodes(experiment: Experiment, in_use: SiteInUse) -> Iterator[tuple[Location, str]]:
    """What does not fit the site: (place in the experiment file, sentence)."""
    table = _table(experiment)
    clusters = {cluster.name: cluster for cluster in in_use.file.clusters}
    if table.cluster not in clusters:
        has = ", ".join(clusters) or "none"
        yield (
            ("shared_nodes", "cluster"),
            f"the site '{in_use.file.name}' has no cluster '{table.cluster}'; it has {has}",
        )
        return
    if clusters[table.cluster].social_contract is None:
        yield (
            ("shared_nodes", "cluster"),
            f"the cluster '{table.cluster}' has no social contract, under which its nodes would be shared; "
            f"give it one in the site file ([clusters.social_contract])",
        )
    sizes = Characterisations.of_site(in_use.file).sizes()
    for name in experiment.workload.mix or [k.name for k in in_use.file.job_classes]:
        if name not in sizes:
            place: Location = ("workload", "mix", name) if experiment.workload.mix else ("site",)
            yield (
                place,
                f"the job class '{name}' was never measured in isolation (job_classes.in_isolation), so "
                f"nothing is known of it on shared nodes; measure it, or leave it out of workload.mix",
            )
    for name in table.tasks:
        if name not in sizes:
            yield ("shared_nodes", "tasks", name), f"the site has no job class '{name}' for shared nodes"


def cannot_predict(experiment: Experiment) -> Iterator[str]:
    """Why a predictor cannot follow a scheduler of the experiment."""
    for name in experiment.schedulers:
        for predictor in _table(experiment).predictors:
            try:
                by_name.make(by_name.read(predictor), registry.load(name)(), lambda _: ErrorHistory(()))
            except Misnamed as error:
                yield f"scheduler '{name}', predictor '{predictor}': {error}"


def sizes_of_jobs(experiment: Experiment, in_use: SiteInUse) -> Mapping[str, list[int]]:
    """The numbers of tasks that jobs of each class may have."""
    measured = Characterisations.of_site(in_use.file).sizes()
    return measured | {name: list(tasks) for name, tasks in _table(experiment).tasks.items()}


def run_shared(
    experiment: Experiment,
    in_use: SiteInUse,
    jobs: list[Job],
    spread: Spread,
    around: Surroundings,
    replication: int,
    name: str,
    timings: list[Timing],
    clock: SimClock,
) -> SharedRun:
    """One run of the harness on the shared nodes of an experiment."""
    factory = registry.load(name)
    guard = experiment.guard

    def guarded(scheduler: Scheduler, witness: Scheduler | None, timed: list[Timing]) -> Scheduler:
        return GuardedScheduler(
            scheduler, clock, guard.decision_limit_s, timed.append, witness, first_violation_on_nodes
        )

    needs_witness = guard.ask_twice and not registry.is_built_in(name)
    return run_on_shared_nodes(
        _cluster(experiment, in_use, spread),
        jobs,
        Characterisations.of_site(in_use.file),
        name,
        guarded(factory(), factory() if needs_witness else None, timings),
        _predictors(experiment, in_use, name),
        experiment.seed,
        replication,
        clock,
        around,
    )


def _table(experiment: Experiment) -> SharedNodesTable:
    if experiment.shared_nodes is None:
        raise LookupError("the experiment has no shared nodes")
    return experiment.shared_nodes


def _cluster(experiment: Experiment, in_use: SiteInUse, spread: Spread) -> SharedCluster:
    table = _table(experiment)
    cluster = in_use.shared_cluster(table.cluster)
    contract = cluster.social_contract
    assert contract is not None, "problems_on_shared_nodes has looked"
    memory_mb = {name: group.memory_mb or 0.0 for group in in_use.file.machines for name in group.names}
    users, monitors = table.local_users, table.monitors
    return SharedCluster(
        memory_mb=tuple(memory_mb[name] for name in cluster.members),
        contract=SocialContract(
            contract.share, contract.most_jobs, inf if contract.most_cpu is None else contract.most_cpu
        ),
        local_load=None if users is None or not users.share_of_nodes else LocalLoad(**users.model_dump()),
        sharing=_sharing(table),
        sampling=Sampling(**monitors.model_dump()),
        run_to_run=spread,
        control_delay_s=table.coscheduling.control_delay_s,
    )


def _sharing(table: SharedNodesTable) -> Sharing:
    match table.sharing:
        case "fluid":
            return Fluid(coscheduling_loss=table.coscheduling.loss, overhead=table.coscheduling.overhead)
        case "by_mpl":
            return ByMpl()
        case "by_cpu":
            return ByCpu()


def _predictors(experiment: Experiment, in_use: SiteInUse, name: str) -> dict[str, Predictor]:
    """Each has a scheduler of its own: the live one must not hear what is only imagined."""
    histories = _histories(in_use)

    def errors_of(predictor: PredictorName) -> ErrorHistory:
        return histories.get((name, str(predictor))) or ErrorHistory(())

    return {
        label: by_name.make(by_name.read(label), registry.load(name)(), errors_of)
        for label in _table(experiment).predictors
    }


def _histories(in_use: SiteInUse) -> Mapping[tuple[str, str], ErrorHistory]:
    """What is known of the errors of predictors, by (scheduler, predictor)."""
    known = Characterisations.of_site(in_use.file)
    sizes = known.sizes()
    errors: defaultdict[tuple[str, str], list[Error]] = defaultdict(list)
    for error in in_use.errors:
        if error.tasks in sizes.get(error.job_class, ()):
            exe_s = known.of(error.job_class, error.tasks).exe_s
            alike = Circumstances(exe_s, error.tasks, error.waiting, error.jobs_there.bit_length())
            errors[error.scheduler, error.predictor].append(Error(alike, error.ratio))
    return {key: ErrorHistory(of_key) for key, of_key in errors.items()}


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
