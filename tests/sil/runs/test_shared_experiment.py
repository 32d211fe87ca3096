"""Whole experiments on shared nodes, from their files: same bytes, faults, monitors, what is learned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sil.experiment.databases import Identity, batches
from sil.experiment.run import Definition, SiteChoice, run_experiment
from sil.outcome.comparison import Comparison
from sil.outcome.prediction_errors import accuracies
from sil.report.experiment_figures import timeline
from sil.report.tables import prediction_texts
from sil.report.vega_lite import specification
from sil.runs.scenario import scenario_of
from sil.runs.simulation import RunKey
from sil.settings import experiment_file, files
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact, RunTables
from sil.trace.held import one_row_per_machine
from sil.workers.executor import Inline, Listener
from sil.workers.processes import Processes
from site_db import store
from site_db.experience import KnownError, known_errors, schedulers_predicted
from site_db.files.input_errors import InvalidFile
from site_db.jobs import recording
from site_db.site_file.importing import put_site, read_site_file
from site_db.sites import find_site
from site_db.store import Address, parse_address
from tests import faulty_on_nodes
from tests.commands import succeeded
from tests.postgres import Server

pytestmark = pytest.mark.usefixtures("without_reports")

SITE = """
name = "lab"
machine_classes = [{ name = "pc" }]

[[machines]]
names = ["pc[1-4]"]
machine_class = "pc"
memory_mb = 512

[[machines]]
names = ["printer"]
machine_class = "pc"

[[clusters]]
name = "room"
members = ["pc[1-4]"]
social_contract = { most_jobs = 2 }

[[clusters]]
name = "dedicated"
members = ["pc[1-2]"]

[[job_classes]]
name = "talk"
in_isolation = [
  { tasks = 1, exe_s = 20, cpu = 0.4, memory_mb = 60 },
  { tasks = 4, exe_s = 8, cpu = 0.4, memory_mb = 30 },
]

[[job_classes]]
name = "count"
in_isolation = [{ tasks = 2, exe_s = 30, cpu = 0.9, memory_mb = 110 }]

[[job_classes]]
name = "elsewhere"
sequential_s = { pc = 5 }
"""
EXPERIMENT = """
name = "small"
site = "site.toml"
schedulers = ["normal_easy", "uniform"]
replications = 2

[workload]
jobs = 12
mix = { talk = 1, count = 1 }
arrivals = { kind = "poisson", jobs_per_quantum = 1, quantum_s = 5 }

[run_times]
kind = "normal"
coefficient_of_variation = 0.03

[shared_nodes]
cluster = "room"
predictors = ["aware", "blind mpl-mpl"]
local_users = { share_of_nodes = 0.5 }
"""


def written(folder: Path, text: str = EXPERIMENT) -> Path:
    (folder / "site.toml").write_text(SITE)
    (folder / "experiment.toml").write_text(text)
    return folder / "experiment.toml"


def run(path: Path, out: Path, choice: SiteChoice | None = None, workers: int = 1) -> Comparison:
    experiment = experiment_file.read_experiment(path)
    with Processes(workers) if workers > 1 else Inline() as executor:
        return run_experiment(Definition(experiment, path), out, executor, choice or SiteChoice(), Listener())


def one_run(path: Path, scheduler: str) -> RunTables:
    experiment = experiment_file.read_experiment(path)
    in_use = SiteSource(experiment, path.parent, None).snapshot(path.parent / "site.db")
    experiment = experiment.model_copy(update={"schedulers": (scheduler,)})
    return scenario_of(experiment, in_use).at(0).run(RunKey(0, 0, scheduler))


def refusal(path: Path) -> str:
    with pytest.raises((InvalidFile, ValueError)) as refused:
        run(path, path.parent / "out")
    return str(refused.value)


@pytest.mark.long
def test_results_are_byte_identical_with_any_number_of_workers(tmp_path: Path) -> None:
    path = written(tmp_path)
    for workers in (1, 2):
        run(path, tmp_path / str(workers), workers=workers)
    for name in ("trace.parquet", "predictions.parquet", "local_users.parquet", "jobs.csv"):
        one, two = ((tmp_path / out / name).read_bytes() for out in ("1", "2"))
        assert one == two, name


@pytest.mark.reads_report
def test_results_contain_predictions_local_users_and_nodes(tmp_path: Path) -> None:
    comparison = run(written(tmp_path), tmp_path / "out")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [(p["scheduler"], p["predictor"]) for p in summary["predictions"]] == [
        (scheduler, predictor)
        for scheduler in ("normal_easy", "uniform")
        for predictor in ("aware cpu-cpu", "blind mpl-mpl")
    ]
    for accuracy in comparison.accuracies:
        assert accuracy.n_predictions >= 2 * 12
        assert 0 <= accuracy.errors["deviation"].mean < 100
        assert accuracy.errors["coverage"] is None, "a site file has no errors to tell of"
    for key in ("mean_mpl", "local_slowdown", "tight_share"):
        cell = comparison.cell(0, "uniform", key)
        assert cell is not None
    jobs = pl.read_csv(tmp_path / "out" / "jobs.csv", schema_overrides={"allocated_resources": pl.String})
    assert jobs.height == 2 * 2 * 12
    page = (tmp_path / "out" / "report.html").read_text()
    for title in ("Predicted turnaround", "Nodes over time", "the 4 time-shared nodes of room"):
        assert title in page


@pytest.mark.reads_report
def test_a_long_outage_with_local_users_is_not_a_fault_and_is_reported(tmp_path: Path) -> None:
    """Some news of the monitors in each second, for hours in which no job can run; then all of them do."""
    text = EXPERIMENT.replace("normal_easy", "basic").replace(', "uniform"', "").replace("= 2", "= 1", 1)
    text = text.replace("local_users = { share_of_nodes = 0.5 }", "local_users = { share_of_nodes = 1.0 }")
    text += "monitors = { interval_s = 1.0 }\n"
    text += "".join(f'[[outages]]\nmachine = "pc{k}"\nfrom_s = 1\nto_s = 12000\n' for k in (1, 2, 3, 4))
    comparison = run(written(tmp_path, text), tmp_path / "out")
    assert not comparison.faults
    facts = pl.read_parquet(tmp_path / "out" / "trace.parquet")
    assert facts.filter(pl.col("event") == Fact.RUN_ENDED).height == 12
    assert facts["time_s"].max() > 12000  # type: ignore[operator]
    chart = specification(timeline(facts.filter(pl.col("scheduler") == "basic"), 4))
    assert all(len(rows) <= 5000 for rows in chart["datasets"].values())


def test_a_permanent_outage_is_reported_with_the_waiting_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.world.harness.MAX_IDLE_ROUNDS", 500)
    path, database = written(tmp_path), str(tmp_path / "lab.db")
    for command in (("init",), ("import", str(tmp_path / "site.toml")), ("state", "pc1", "down")):
        succeeded("db", *command, "--db", database)
    comparison = run(path, tmp_path / "out", SiteChoice(parse_address(database)))
    assert "; 1 of the machines and interconnects is permanently down" in str(comparison.faults[0])


def test_infinite_predictions_are_counted_but_excluded_from_statistics() -> None:
    rows = [(0, 0, "s", job, "p", inf, 60.0, True) for job in range(2)] + [
        (0, 0, "s", 1, "p", 90.0, 60.0, False)
    ]
    columns = ("point", "replication", "scheduler", "job", "predictor", "predicted_s", "real_s", "first")
    scores = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        deviation=(pl.col("predicted_s") - pl.col("real_s")) / pl.col("real_s"),
        low_s=pl.lit(None, pl.Float64),
        high_s=pl.lit(None, pl.Float64),
        finish_time=pl.lit(60.0),
    )
    (told,) = accuracies(scores)
    assert (told.never, told.n_predictions) == (2, 3)
    assert (told.errors["deviation"], told.errors["bias"], told.errors["over"], told.errors["coverage"]) == (
        None,
        None,
        None,
        None,
    )
    assert told.errors["deviation_of_all"] is not None
    assert told.errors["deviation_of_all"].mean == 50.0
    assert prediction_texts(told) == ["-", "-", "-", "50.0", "-"]


def test_utilisation_counts_a_node_once_however_many_jobs_share_it(tmp_path: Path) -> None:
    comparison = run(written(tmp_path), tmp_path / "out")
    for scheduler in comparison.schedulers:
        used, mpl = (comparison.cell(0, scheduler, key) for key in ("utilisation", "mean_mpl"))
        assert used is not None
        assert mpl is not None
        assert used.value.mean <= 100
        assert 1 <= mpl.value.mean <= 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (('cluster = "room"', 'cluster = "attic"'), "line 17: the site 'lab' has no cluster 'attic'"),
        (('cluster = "room"', 'cluster = "dedicated"'), "the cluster 'dedicated' has no social contract"),
        (("talk = 1,", "elsewhere = 1,"), "'elsewhere' was never measured in isolation"),
        (('"aware"', '"augur"'), "unknown predictor 'augur'; expected aware, blind or hybrid"),
        (('"aware"', '"aware cpu-proportional"'), "not in proportion"),
        (('"blind mpl-mpl"', '"aware cpu-cpu"'), "the predictor 'aware cpu-cpu' is listed twice"),
        (('"uniform"', '"sjs"'), "needs one that starts jobs on time-shared"),
        (('"uniform"', '"loras(selection=last)"'), "'last' is no job selection"),
        (("[run_times]", 'planned_starts = "kept"\n[run_times]'), "unknown key"),
        (("replications = 2", 'replications = 2\nplanned_starts = "kept"'), "planned_starts has no effect"),
        (
            ("replications = 2", 'replications = 2\nqueues = [{ name = "q" }]'),
            "queues has no effect on time-shared",
        ),
        (("0.5 }", "0.5 }\ntasks = { song = [1] }"), "has no job class 'song' for time-shared nodes"),
        (("share_of_nodes = 0.5", "share_of_nodes = 0.5, demand = [0.2]"), "demand: expected 2 elements"),
        (("share_of_nodes = 0.5", "share_of_nodes = 0.5, memory = [0, 0, 1]"), "expected 2 elements at most"),
        (("share_of_nodes = 0.5", "share_of_nodes = 2"), "share_of_nodes = 2"),
        (("share_of_nodes = 0.5", "share_of_nodes = 0.5, mean_cpu = 0.7"), "mean_cpu has to be less"),
        (
            ("share_of_nodes = 0.5", "share_of_nodes = 0.5, demand = [0.9, 0.2]"),
            "from the lower to the higher",
        ),
        (("0.5 }", "0.5 }\nlimits = { times_alone = [3, 2] }"), "to the higher, not from 3 to 2"),
        (
            ("0.5 }", '0.5 }\nlimits = { times_alone = [2, 3], predictor = "hybrid" }'),
            "limits are promised by what 'hybrid cpu-cpu' predicts; list it in predictors",
        ),
        (("0.5 }", "0.5 }\ntasks = { count = [3] }"), "'count' was never measured in isolation with 3 tasks"),
        (("0.5 }", "0.5 }\ncoscheduling = { overhead = 0.5 }"), "leaves nothing of the 0.5 that the"),
        (
            ("[shared_nodes]", '[grid]\n"shared_nodes.coscheduling.overhead" = [0.1, 0.6]\n\n[shared_nodes]'),
            "coscheduling that costs 0.6 of a CPU leaves nothing",
        ),
        (
            ("[shared_nodes]", '[grid]\n"shared_nodes.cluster" = ["room", "dedicated"]\n\n[shared_nodes]'),
            "the nodes are the same at all points; 'shared_nodes.cluster' cannot vary",
        ),
        (
            ("[shared_nodes]", '[[outages]]\nmachine = "printer"\nfrom_s = 1\nto_s = 2\n\n[shared_nodes]'),
            "the time-shared cluster has no machine 'printer'",
        ),
    ],
)
def test_an_invalid_experiment_is_rejected_in_one_sentence(
    tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    assert change[0] in EXPERIMENT
    assert told in refusal(written(tmp_path, EXPERIMENT.replace(*change)))


def test_a_shared_nodes_scheduler_is_rejected_without_shared_nodes(tmp_path: Path) -> None:
    text = EXPERIMENT[: EXPERIMENT.index("[shared_nodes]")]
    told = refusal(written(tmp_path, text))
    assert "scheduler 'normal_easy' starts jobs on time-shared nodes (kind shared-nodes)" in told


def test_a_predictor_unfit_for_a_custom_scheduler_is_skipped_and_reported(tmp_path: Path) -> None:
    name = "tests.sil.runs.test_shared_experiment:OwnFcfs"
    path = written(tmp_path, EXPERIMENT.replace('"uniform"', f'"{name}"'))
    told: list[str] = []
    listener = Listener()
    listener.notify = told.append  # type: ignore[method-assign]
    run_experiment(
        Definition(experiment_file.read_experiment(path), path),
        tmp_path / "out",
        Inline(),
        SiteChoice(),
        listener,
    )
    assert told == [
        f"for scheduler '{name}' the predictor 'blind mpl-mpl' is left out: the predictor 'blind' is "
        f"for LoRaS only; this is another scheduler"
    ]
    made = pl.read_parquet(tmp_path / "out" / "predictions.parquet").filter(pl.col("scheduler") == name)
    assert made["predictor"].unique().to_list() == ["aware cpu-cpu"]


FAULTY_IN_AN_EXPERIMENT = [
    kind for kind in faulty_on_nodes.BROKEN_RULE if kind is not faulty_on_nodes.WritesIntoTheNodes
]
"""Only the contract suite compares a problem before and after."""


@pytest.mark.parametrize("kind", FAULTY_IN_AN_EXPERIMENT, ids=lambda kind: kind.__name__)
def test_a_fault_on_shared_nodes_is_the_last_fact_of_its_run(kind: type, tmp_path: Path) -> None:
    text = EXPERIMENT.replace('"aware", "blind mpl-mpl"', "").replace(
        "replications = 2", "replications = 2\nguard = { decision_limit_s = 0.5 }"
    )
    facts = one_run(written(tmp_path, text), f"tests.faulty_on_nodes:{kind.__name__}").facts
    last = facts.row(-1, named=True)
    assert (last["event"], last["detail"]) == (Fact.FAULT, faulty_on_nodes.BROKEN_RULE[kind])
    assert facts.filter(pl.col("event") == Fact.FAULT).height == 1


class FailsInPrediction:
    """Decides well, but for times that have not come."""

    def schedule(self, problem: Any) -> Any:
        good = OwnFcfs().schedule(problem)
        if not problem.running and problem.now_s > 0 and not problem.jobs[0].job_class:
            raise ValueError("this has not happened")
        return good


def test_a_scheduler_that_fails_only_in_prediction_is_reported_and_the_others_have_results(
    tmp_path: Path,
) -> None:
    name = "tests.sil.runs.test_shared_experiment:FailsInPrediction"
    text = EXPERIMENT.replace('"uniform"', f'"{name}"').replace('"aware", "blind mpl-mpl"', '"aware"')
    comparison = run(written(tmp_path, text), tmp_path / "out")
    (fault,) = comparison.faults
    assert (fault.scheduler, fault.rule) == (name, "raises-nothing")
    assert comparison.cell(0, "normal_easy", "makespan") is not None
    assert {accuracy.scheduler for accuracy in comparison.accuracies} == {"normal_easy"}


def test_limits_without_a_predictor_to_promise_them_are_rejected(tmp_path: Path) -> None:
    text = EXPERIMENT.replace('"aware", "blind mpl-mpl"', '"blind"').replace('"uniform"', '"promising"')
    text = text.replace("0.5 }", "0.5 }\nlimits = { times_alone = [2, 3] }")
    told = refusal(written(tmp_path, text))
    assert "scheduler 'promising': limits are promised by a predictor that does not fit it" in told


def test_without_promises_the_promised_share_is_zero(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("[shared_nodes]", "[shared_nodes]\nlimits = { times_alone = [1.0, 1.6] }")
    comparison = run(written(tmp_path, text), tmp_path / "out")
    for scheduler in comparison.schedulers:
        share = comparison.cell(0, scheduler, "promised_share")
        assert share is not None
        assert 0 <= share.value.mean < 50


def test_prediction_errors_are_shared_by_aliases_of_a_scheduler(tmp_path: Path) -> None:
    path = written(tmp_path)
    address = parse_address(str(tmp_path / "lab.db"))
    engine = store.create(address)
    with store.changing(engine) as session:
        put_site(session, read_site_file(tmp_path / "site.toml"))
    engine.dispose()
    run(path, tmp_path / "out", SiteChoice(address, learns=True))
    other = EXPERIMENT.replace(
        '"normal_easy", "uniform"', '"loras(selection=easy, node_selection=normal)", "normal"'
    )
    (tmp_path / "other.toml").write_text(other)
    comparison = run(tmp_path / "other.toml", tmp_path / "other", SiteChoice(address))
    known = {a.scheduler: a.errors["coverage"] is not None for a in comparison.accuracies}
    assert known == {"loras(selection=easy, node_selection=normal)": True, "normal": False}


def test_a_custom_scheduler_is_predicted_by_calling_it(tmp_path: Path) -> None:
    text = EXPERIMENT.replace('"aware", "blind mpl-mpl"', '"aware"')
    tables = one_run(written(tmp_path, text), "tests.sil.runs.test_shared_experiment:OwnFcfs")
    assert tables.facts.filter(pl.col("event") == Fact.RUN_ENDED).height == 12
    theirs = tables.predictions.drop("scheduler")
    ours = one_run(written(tmp_path, text), "normal").predictions.drop("scheduler")
    assert theirs.select("made_s", "job").equals(ours.select("made_s", "job"))
    assert theirs["end_s"].to_list() == pytest.approx(ours["end_s"].to_list(), rel=1e-9)


class OwnFcfs:
    """A scheduler of some user's, which asks ours."""

    def schedule(self, problem: Any) -> Any:
        from scheduler.time_shared.loras import Loras

        return Loras().schedule(problem)


def test_user_policies_apply_on_shared_nodes(tmp_path: Path) -> None:
    path = written(tmp_path, EXPERIMENT.replace("jobs = 12", "jobs = 12\nusers = { ann = 1 }"))
    site = SITE + '\n[[users]]\nname = "ann"\nmost_jobs = 2\n'
    (tmp_path / "site.toml").write_text(site)
    facts = one_run(path, "uniform").facts
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)["detail"]
    assert len(refused) > 0
    assert refused[0] == "user 'ann' has 2 unfinished jobs, which is the limit"
    assert facts.filter(pl.col("event") == Fact.RUN_ENDED).height == 12 - len(refused)


def test_results_of_an_earlier_experiment_in_the_folder_are_not_mixed_in(tmp_path: Path) -> None:
    run(written(tmp_path), tmp_path / "out")
    none = EXPERIMENT.replace('["aware", "blind mpl-mpl"]', "[]").replace("0.5 }", "0.0 }")
    comparison = run(written(tmp_path, none), tmp_path / "out")
    assert list(comparison.accuracies) == []
    assert not (tmp_path / "out" / "predictions.parquet").exists()
    assert not (tmp_path / "out" / "local_users.parquet").exists()


def test_a_failed_node_loses_its_runs_and_is_reused_after_repair(tmp_path: Path) -> None:
    outage = '[[outages]]\nmachine = "pc2"\nfrom_s = 20\nto_s = 60\n\n[shared_nodes]'
    facts = one_run(written(tmp_path, EXPERIMENT.replace("[shared_nodes]", outage)), "normal").facts
    assert facts.filter(pl.col("event") == Fact.RUN_LOST).height >= 1
    assert facts.filter(pl.col("event") == Fact.RUN_ENDED).height == 12
    started = one_row_per_machine(facts.filter(pl.col("event") == Fact.RUN_STARTED))
    on_it = started.filter(pl.col("machines") == 1)["time_s"]
    assert not on_it.is_between(20, 60, closed="left").any()
    assert (on_it >= 60).any()


def test_random_node_failures_lose_no_job(tmp_path: Path) -> None:
    failures = (
        "[failures]\nmean_time_between_failures_s = 60\nmean_time_to_repair_s = 20\n\n"
        "[monitors]\ndelay_s = 3\n\n[shared_nodes]"
    )
    comparison = run(written(tmp_path, EXPERIMENT.replace("[shared_nodes]", failures)), tmp_path / "out")
    assert comparison.faults == []
    facts = pl.read_parquet(tmp_path / "out" / "trace.parquet")
    assert facts.filter(pl.col("event") == Fact.RUN_ENDED).height == 2 * 2 * 12
    assert facts.filter(pl.col("event") == Fact.RUN_LOST).height > 0


@pytest.mark.reads_report
def test_monitors_that_are_silent_or_report_invalid_values_are_noted(tmp_path: Path) -> None:
    users = "local_users = { share_of_nodes = 1.0 }"
    bad = f"{users}\nmonitors = {{ untrue_share = 0.3, silent_share = 0.5 }}"
    text = EXPERIMENT.replace("local_users = { share_of_nodes = 0.5 }", bad)
    comparison = run(written(tmp_path, text), tmp_path / "out")
    notes = " ".join(comparison.notes)
    assert (
        "readings of monitors were ignored; the first because a number of local tasks was reported as -1"
        in notes
    )
    assert "monitors never answered" in notes
    assert "never answered" in (tmp_path / "out" / "report.html").read_text()


def test_promises_are_recorded_as_facts_and_the_share_kept_is_a_metric(tmp_path: Path) -> None:
    text = EXPERIMENT.replace("[shared_nodes]", "[shared_nodes]\nlimits = { times_alone = [1, 9] }")
    comparison = run(written(tmp_path, text), tmp_path / "out")
    facts = pl.read_parquet(tmp_path / "out" / "trace.parquet")
    promised = facts.filter(pl.col("event") == Fact.PROMISED).group_by("scheduler").len()
    for scheduler, n in promised.iter_rows():
        share, kept = (comparison.cell(0, scheduler, key) for key in ("promised_share", "kept_share"))
        assert share is not None
        assert kept is not None
        assert share.value.mean == pytest.approx(100 * n / 24)
        assert 0 < kept.value.mean <= 100


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def laboratory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """A database with the small site."""
    written(tmp_path)
    on_server = request.param == "postgresql"
    server: Server | None = request.getfixturevalue("server") if on_server else None
    address = parse_address(str(tmp_path / "lab.db")) if server is None else server.new_database()
    engine = store.create(address)
    with store.changing(engine) as session:
        put_site(session, read_site_file(tmp_path / "site.toml"))
    engine.dispose()
    yield address
    if server is not None:
        server.drop(address)


def errors_at(address: Address, as_of: int = 10**9) -> list[KnownError]:
    engine = store.open_database(address)
    with store.reading(engine) as session:
        site_id = find_site(session, "lab").id
        names = schedulers_predicted(session, site_id)
        found = [error for name in names for error in known_errors(session, site_id, name, as_of)]
    engine.dispose()
    return found


def test_prediction_errors_are_learned_and_hidden_as_of_an_earlier_run(
    laboratory: Address, tmp_path: Path
) -> None:
    path = written(tmp_path)
    learns, reads = SiteChoice(laboratory, learns=True), SiteChoice(laboratory)
    run(path, tmp_path / "first", learns)
    first = errors_at(laboratory)
    made = pl.read_parquet(tmp_path / "first" / "predictions.parquet")
    assert len(first) == made.filter(pl.col("end_s").is_between(pl.col("made_s"), 1e9, closed="right")).height
    assert {(e.scheduler, e.predictor) for e in first} == {
        (scheduler, predictor)
        for scheduler in ("normal_easy", "uniform")
        for predictor in ("aware cpu-cpu", "blind mpl-mpl")
    }
    comparison = run(path, tmp_path / "second", reads)
    assert all(accuracy.errors["coverage"] is not None for accuracy in comparison.accuracies)
    (tmp_path / "other.toml").write_text(EXPERIMENT.replace('"small"', '"other"') + "\n")
    run(tmp_path / "other.toml", tmp_path / "third", SiteChoice(laboratory, learns=True))
    assert len(errors_at(laboratory)) == 2 * len(first)
    assert errors_at(laboratory, 48) == first
    run(path, tmp_path / "as of", SiteChoice(laboratory, as_of=48))
    for name in ("trace.parquet", "predictions.parquet"):
        one, two = ((tmp_path / out / name).read_bytes() for out in ("second", "as of"))
        assert one == two, name


def test_a_ratio_is_the_remaining_actual_time_over_the_predicted_one(
    laboratory: Address, tmp_path: Path
) -> None:
    run(written(tmp_path), tmp_path / "out", SiteChoice(laboratory, learns=True))
    made = pl.read_parquet(tmp_path / "out" / "predictions.parquet")
    facts = pl.read_parquet(tmp_path / "out" / "trace.parquet")
    ended = facts.filter(pl.col("event") == Fact.RUN_ENDED).select(
        "point", "replication", "scheduler", "job", ended_s="time_s"
    )
    later = made.filter(pl.col("end_s") > pl.col("made_s"))
    joined = later.join(ended, on=("point", "replication", "scheduler", "job"))
    expected = (joined["ended_s"] - joined["made_s"]) / (joined["end_s"] - joined["made_s"])
    assert sorted(e.ratio for e in errors_at(laboratory)) == pytest.approx(sorted(expected))


def test_unrecorded_predictions_round_trip_through_the_csv_file(tmp_path: Path) -> None:
    path = written(tmp_path)
    experiment = experiment_file.read_experiment(path)
    in_use = SiteSource(experiment, path.parent, None).snapshot(tmp_path / "site.db")
    tables = scenario_of(experiment, in_use).at(0).run(RunKey(0, 0, "uniform"))
    waiting = list(
        batches(tables, scenario_of(experiment, in_use).resources, Identity("small", "print", "all"))
    )
    recording.write(tmp_path / "unrecorded.csv", waiting)
    assert recording.read(tmp_path / "unrecorded.csv", 1e9) == [(s, list(jobs)) for s, jobs in waiting]


def test_the_built_in_experiments_on_shared_nodes_are_valid() -> None:
    for name in ("shared-nodes", "promised-limits", "coscheduled-nodes", "periodic-jobs"):
        experiment = experiment_file.read_experiment(files.built_in("experiments")[name])
        assert experiment.shared_nodes is not None


@pytest.mark.long
def test_in_the_built_in_experiment_reservations_keep_periods_that_are_missed_without(tmp_path: Path) -> None:
    """As documented: the kernel keeps nine tenths of what is missed otherwise, user space more than half."""
    comparison = run(files.built_in("experiments")["periodic-jobs"], tmp_path / "out")
    missed = [comparison.rows(k, "loras(selection=first_fit)")["missed_periods"].mean() for k in range(4)]
    none, kernel, none_either, user_space = (float(str(share)) for share in missed)
    assert kernel < 0.1 * none
    assert user_space < 0.5 * none_either


@pytest.mark.parametrize(
    ("periodic", "says"),
    [
        ("talk = { period_s = 1.0, share = 0.5 }", "a task of 'talk' uses 0.4 of a CPU in isolation"),
        ("walk = { period_s = 1.0, share = 0.5 }", "the site has no job class 'walk' for time-shared nodes"),
        ("talk = { period_s = 0.0, share = 0.3 }", "period_s"),
    ],
)
def test_a_period_that_cannot_be_is_refused_with_its_place(periodic: str, says: str, tmp_path: Path) -> None:
    text = f'{EXPERIMENT}sharing = "detailed"\n[shared_nodes.in_detail.periodic]\n{periodic}\n'
    assert says in refusal(written(tmp_path, text))


def test_periodic_jobs_without_a_coscheduler_have_no_reservation_which_is_said(tmp_path: Path) -> None:
    in_detail = 'coscheduler = "none"\nperiodic = { talk = { period_s = 1.0, share = 0.3 } }'
    text = f'{EXPERIMENT}sharing = "detailed"\n[shared_nodes.in_detail]\n{in_detail}\n'
    experiment = experiment_file.read_experiment(written(tmp_path, text))
    in_use = SiteSource(experiment, tmp_path, None).snapshot(tmp_path / "run.db")
    assert any(
        "nothing is reserved for periodic jobs" in note for note in scenario_of(experiment, in_use).notes()
    )
