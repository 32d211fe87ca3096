"""One experiment from its file to its results folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree

import polars as pl

from scheduler import UserError
from sil.experiment.databases import Identity, Teacher, write_results
from sil.experiment.output_folder import UNFINISHED, make_usable
from sil.experiment.provenance import describe
from sil.experiment.sweep import ExperimentRuns
from sil.outcome.comparison import Comparison
from sil.outcome.jobs import failed_job_table, job_table, with_clusters, write_jobs_csv
from sil.outcome.metrics import faults, run_metrics
from sil.outcome.prediction_errors import score_predictions
from sil.report import FigureKind
from sil.report.experiment import experiment_page
from sil.report.listing import json_text
from sil.report.origin import record_origin, sha256_sums
from sil.report.page import write_figures, write_page
from sil.runs.scenario import Scenario, scenario_of_file
from sil.runs.under_test import Find, resolve
from sil.settings.experiment_file import Experiment, read_experiment
from sil.site.past import past_arrivals
from sil.site.site_in_use import SiteSource
from sil.site.what_if_site import InapplicableChange
from sil.trace.facts import RUN, SCHEMAS, TIMINGS, TRACE, RunDescription, RunTables, write_trace
from sil.trace.reading import read_table, read_trace
from sil.workers.executor import Executor, Interrupted, Listener
from sil.workers.runner import Runner
from sil.workers.store import Store
from site_db.files import toml_file
from site_db.files.access import no_link
from site_db.files.input_errors import given
from site_db.store import Address

BESIDE_THE_TRACE = {
    "timings": TIMINGS,
    "predictions": "predictions.parquet",
    "local_users": "local_users.parquet",
    "periods": "periods.parquet",
}
JOBS = "jobs.csv"
SUMMARY = "summary.json"
REPORT = "report.html"
DATABASE = "results.db"
UNRECORDED = "unrecorded.csv"
FIGURES = "figures"
PRINTED = "printed"
WITHOUT_KILLED = (
    f"has the results of all other runs; the same command tries again those that were killed, and then "
    f"writes {DATABASE}"
)


@dataclass(frozen=True)
class Definition:
    """An experiment as read from the file `source`, perhaps with other settings. `find` finds its schedulers
    by name."""

    experiment: Experiment
    source: Path
    find: Find = resolve


@dataclass(frozen=True)
class SiteChoice:
    """The site of the experiment file (`address` None), or one in a database, as of run `as_of` of its
    history (None = now); the database may learn from the experiment."""

    address: Address | None = None
    learns: bool = False
    as_of: int | None = None

    def check(self, experiment: Experiment) -> None:
        """Raise UserError unless this suits the experiment."""
        if self.learns and self.address is None:
            raise UserError(
                f"with {given('--learn', True)}, say with {given('--site')} which database is to learn"
            )
        if self.as_of is not None and self.address is None:
            raise UserError(
                f"with {given('--as-of')}, say with {given('--site')} which database has the history"
            )
        if experiment.clusters and self.address is not None:
            raise UserError(
                f"an experiment with several clusters names their sites itself; leave out {given('--site')}"
            )
        if self.learns and experiment.notional:
            changes = "; ".join(change.text for change in experiment.notional)
            raise UserError(
                f"with {given('--learn', True)}, the database would learn from machines that do not exist "
                f"({changes}); leave it out, or the what-if changes of the site"
            )


def run_experiment(
    definition: Definition, out: Path, executor: Executor, choice: SiteChoice, listener: Listener
) -> Comparison:
    """Run an experiment and write its results into `out`.

    Raises UserError and Interrupted; the number of replications that are done is what is `finished` then,
    and the same experiment with that number writes their results.
    """
    experiment, source = definition.experiment, definition.source
    choice.check(experiment)
    drawn = experiment.history and past_arrivals(experiment.history, experiment.queues, choice.address)
    if drawn is not None:
        experiment = experiment.model_copy(update={"workload": drawn, "history": None})
        definition = replace(definition, experiment=experiment)
    make_usable(out)
    origin, results = choice.address.path if choice.address else None, out / DATABASE
    if origin is not None and origin.is_file() and results.is_file() and origin.samefile(results):
        raise UserError(f"the results in {out} would replace the database {origin}; name another with --out")
    out = out.absolute()  # a scheduler may change the working directory
    site = SiteSource(experiment, source.parent, choice.address, choice.as_of)
    try:
        scenario = _use_site(definition, site, out, choice)
    except InapplicableChange as error:
        if error.place >= len(read_experiment(source).notional):
            raise  # it is none of the file's
        raise toml_file.invalid(source, [(("notional", error.place), str(error))]) from None
    identity = Identity.of(scenario)
    if choice.learns and _is_complete(identity, out, choice):
        listener.notify(
            f"{out} has the results of this experiment, and {choice.address} its jobs: nothing is run or "
            "recorded again; name another folder with --out to start from what the site has learned since"
        )
        return render(out)
    record_origin(
        out, {**sha256_sums(source, *site.files), "experiment with its site and code": identity.whole}
    )
    for sentence in scenario.notes():
        listener.notify(sentence)
    with Store(out / UNFINISHED) as store:
        stored_as = _stored_as(identity, choice)
        if not store.has_prefix(f"{stored_as}/"):
            rmtree(out / PRINTED, ignore_errors=True)
        runner = Runner(executor, store, listener.progressed)
        sweep = ExperimentRuns(scenario, runner, out / PRINTED, stored_as)
        try:
            if choice.learns and choice.address is not None:
                to_learn = choice.address, scenario.resources, identity, out / UNRECORDED
                with Teacher(*to_learn, listener.notify) as teacher:
                    sweep.run(teacher.teach)
            else:
                sweep.run()
            with runner.interruptible():
                tables = sweep.collect()
                write_tables(out, tables, describe(scenario))
                comparison = render(out)
                if sweep.killed:
                    listener.notify(f"{out} {WITHOUT_KILLED}")
                    return comparison
                if not experiment.clusters:  # the database is that of one site
                    write_results(out / DATABASE, tables, scenario.resources, identity)
        except Interrupted as interrupted:
            raise Interrupted(runner.done, runner.total, sweep.n_whole_replications) from interrupted
        store.remove()
    return comparison


def _use_site(definition: Definition, site: SiteSource, out: Path, choice: SiteChoice) -> Scenario:
    """The scenario as an earlier run of the same experiment into `out` had it, if it was interrupted or the
    site has learned from it, else with the site as it is now."""
    experiment, source, find = definition.experiment, definition.source, definition.find
    no_link(out / DATABASE)
    may_go_on = (out / UNFINISHED).exists() or (choice.learns and (out / DATABASE).exists())
    if may_go_on and (before := site.resume(out / DATABASE)) is not None:
        scenario = scenario_of_file(experiment, before, source, find)
        if _has_begun(Identity.of(scenario), out, choice):
            return scenario
    return scenario_of_file(experiment, site.snapshot(out / DATABASE), source, find)


def _has_begun(identity: Identity, out: Path, choice: SiteChoice) -> bool:
    with Store(out / UNFINISHED) as store:
        if store.has_prefix(f"{_stored_as(identity, choice)}/"):
            return True
    return choice.learns and choice.address is not None and identity.has_begun_at(choice.address)


def _is_complete(identity: Identity, out: Path, choice: SiteChoice) -> bool:
    """Whether all results are in `out` and, as far as they are to be recorded, in the site's database."""
    return (
        choice.address is not None
        and not (out / UNFINISHED).exists()
        and identity.is_complete_at(Address.of_file(out / DATABASE))
        and identity.is_complete_at(choice.address)
    )


def _stored_as(identity: Identity, choice: SiteChoice) -> str:
    """The prefix of the keys of finished runs: another with an earlier history."""
    return identity.runs if choice.as_of is None else f"{identity.runs} as of {choice.as_of}"


def render(out: Path) -> Comparison:
    """Write the results that follow from the trace in `out`: jobs.csv, summary.json, report.html. Raises
    NoTrace."""
    tables, jobs, comparison = evaluated(out)
    description = comparison.description
    bound_s = description.bounded_slowdown_threshold_s
    failed = failed_job_table(tables.facts, description.first_parallel, bound_s)
    write_jobs_csv(out / JOBS, *(with_clusters(of_some, description) for of_some in (jobs, failed)))
    no_link(out / SUMMARY).write_text(json_text(comparison.as_dict()) + "\n", encoding="utf-8")
    write_page(out / REPORT, experiment_page(tables, jobs, comparison))
    return comparison


def draw(out: Path, kind: FigureKind) -> list[Path]:
    """Write the charts of the report in `out` as files into its folder `figures`."""
    return write_figures(out / FIGURES, kind, experiment_page(*evaluated(out)))


def evaluated(out: Path) -> tuple[RunTables, pl.DataFrame, Comparison]:
    """The tables in `out`, and the table of jobs and the comparison computed from them. Raises NoTrace."""
    facts, description = read_trace(out / TRACE)
    optional = {
        name: read_table(out / file, SCHEMAS[name])
        for name, file in BESIDE_THE_TRACE.items()
        if (out / file).is_file()
    }
    tables = RunTables.of(facts=facts, **optional)
    jobs = job_table(tables.facts, description.first_parallel, description.bounded_slowdown_threshold_s)
    metrics = run_metrics(tables, jobs, description)
    whole = tables.predictions.join(faults(tables.facts), on=RUN, how="anti", maintain_order="left")
    return tables, jobs, Comparison(description, tables.facts, metrics, score_predictions(whole, jobs))


def write_tables(out: Path, tables: RunTables, description: RunDescription) -> None:
    """Write the trace, and the tables beside it that have rows."""
    write_trace(out / TRACE, tables.facts, description)
    for name, file in BESIDE_THE_TRACE.items():
        frame: pl.DataFrame = getattr(tables, name)
        (out / file).unlink(missing_ok=True)  # of an earlier experiment in the same folder
        if name == "timings" or len(frame):
            frame.write_parquet(out / file)
