"""Experiments that learn get estimates from a database and record the completed runs there."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from sil.experiment.provenance import fingerprint
from sil.experiment.run import Definition, SiteChoice, run_experiment
from sil.outcome.comparison import Comparison
from sil.runs.scenario import scenario_of
from sil.settings import experiment_file
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact
from sil.trace.held import one_row_per_machine
from sil.trace.reading import read_trace
from sil.workers.executor import Inline, Interrupted, Listener
from sil.workers.processes import Processes
from site_db import store
from site_db.history import writer
from site_db.history.stored_statistics import disagreements
from site_db.jobs import recording
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind
from site_db.jobs.writer import JobWriter
from site_db.schema import (
    ExecutionHistoryRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    JobRow,
    MachineStateRow,
    PredictionRow,
    SourceRow,
    UserUsageRow,
)
from site_db.site_file.importing import put_site, read_site_file
from site_db.sites import SiteReader
from site_db.states import Observation, StateWriter
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import in_a_process, sil, succeeded, the_sentence
from tests.postgres import Server

pytestmark = pytest.mark.usefixtures("without_reports")

SCHEDULERS = ("mct", "sjs")
N_JOBS, N_RUNS_OF_THE_HARNESS = 12, 3 * len(SCHEDULERS)  # three replications


class RecordingListener(Listener):
    """Records notifications; `at_progress` is called whenever a run is done."""

    def __init__(self, at_progress: Callable[[int], None] = lambda _: None) -> None:
        self.sentences: list[str] = []
        self._at_progress = at_progress

    def progressed(self, done: int, total: int | None) -> None:
        if done:
            self._at_progress(done)

    def notify(self, sentence: str) -> None:
        self.sentences.append(sentence)


def put_tiny_site(address: Address, folder: Path) -> Address:
    (folder / "tiny.toml").write_text(TINY_SITE)
    engine = store.create(address)
    with Session(engine) as session, session.begin():
        put_site(session, read_site_file(folder / "tiny.toml"))
    engine.dispose()
    return replace(address, site="tiny")


@pytest.fixture(scope="module")
def file_to_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    put_tiny_site(parse_address(str(folder / "site.db")), folder)
    return folder / "site.db"


@pytest.fixture(scope="module")
def server_database_to_copy(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Address:
    return put_tiny_site(server.new_database(), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Address]:
    """A database with the tiny site in it; the stores themselves are the subject of the tests of site_db."""
    if request.param == "sqlite":
        yield parse_address(f"{shutil.copy(request.getfixturevalue('file_to_copy'), tmp_path)}#tiny")
        return
    server: Server = request.getfixturevalue("server")
    with server.copy_of(request.getfixturevalue("server_database_to_copy")) as address:
        yield replace(address, site="tiny")


@pytest.fixture
def engine(address: Address) -> Iterator[Engine]:
    engine = store.open_database(address)
    yield engine
    engine.dispose()


def run(
    path: Path,
    address: Address | None = None,
    out: str = "out",
    learns: bool = True,
    workers: int = 1,
    listener: Listener | None = None,
    as_of: int | None = None,
) -> Comparison:
    definition = Definition(experiment_file.read_experiment(path), path)
    choice = SiteChoice(address, learns, as_of=as_of)
    with Processes(workers) if workers > 1 else Inline() as executor:
        return run_experiment(definition, path.parent / out, executor, choice, listener or Listener())


def count(engine: Engine, row: type[object]) -> int:
    with Session(engine) as session:
        return session.scalar(select(func.count()).select_from(row)) or 0


def history(engine: Engine) -> list[tuple[object, ...]]:
    """All runs in the order in which they are numbered, and that the statistics agree with them."""
    run = ExecutionHistoryRow
    query = select(run.number, SourceRow.key, run.job_class_id, run.machine_id, run.run_time_s)
    with Session(engine) as session:
        assert disagreements(session, 1) == []
        found = session.execute(
            query.join(SourceRow, SourceRow.id == run.source_id).order_by(run.number)
        ).all()
    return [tuple(row) for row in found]


def teach(engine: Engine, *run_times_s: float, resource: str = "f1", job_class: str = "short") -> None:
    """Some runs that somebody else recorded."""
    jobs = [
        JobRecord(str(k), job_class, "ann", "day", JobState.DONE, 0.0, resource, 1, 0.0, time_s)
        for k, time_s in enumerate(run_times_s)
    ]
    with Session(engine) as session, session.begin():
        JobWriter(session, "tiny").add(session, Source(SourceKind.FILE, f"{run_times_s}"), jobs)


def traced(folder: Path) -> pl.DataFrame:
    return read_trace(folder / "trace.parquet")[0]


# -- learning ----------------------------------------------------------------------------------------------


def test_the_same_experiment_gives_the_same_result_in_every_process(tmp_path: Path) -> None:
    """Whatever order sets of strings have there; otherwise it would teach twice, and not go on."""
    queue = '[[queues]]\nname = "day"\nusers = ["ann", "bob", "cy", "dee", "eve"]\n'
    path = tiny_experiment(tmp_path, "users = { ann = 1 }\nqueues = { day = 1 }", site_text=TINY_SITE + queue)
    program = """
import sys
from pathlib import Path
from sil.settings import experiment_file
from sil.experiment.provenance import fingerprint
from sil.runs.scenario import scenario_of
from sil.site.site_in_use import SiteSource
path = Path(sys.argv[1])
experiment = experiment_file.read_experiment(path)
site = SiteSource(experiment, path.parent, None)
print(fingerprint(scenario_of(experiment, site.snapshot(path.parent / sys.argv[2]))))
"""
    done = in_a_process(sys.executable, "-c", program, path, "there.db", PYTHONHASHSEED="1")
    experiment = experiment_file.read_experiment(path)
    site = SiteSource(experiment, path.parent, None).snapshot(tmp_path / "here.db")
    assert done.stdout.strip() == fingerprint(scenario_of(experiment, site))


def test_without_learning_the_database_is_unchanged(address: Address, engine: Engine, tmp_path: Path) -> None:
    run(tiny_experiment(tmp_path), address, learns=False)
    for row in (SourceRow, JobRow, ExecutionHistoryRow, ExecutionStatisticsRow):
        assert count(engine, row) == 0


def test_with_learning_every_job_is_recorded_once_with_its_whole_run(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path)
    run(path, address)
    assert count(engine, SourceRow) == N_RUNS_OF_THE_HARNESS + 1  # and all of them together
    assert count(engine, JobRow) == len(history(engine)) == N_RUNS_OF_THE_HARNESS * N_JOBS
    with Session(engine) as session:
        assert session.scalar(select(func.sum(UserUsageRow.runs))) == N_RUNS_OF_THE_HARNESS * N_JOBS
    # The same experiment on a site that has grown wiser is another one, and teaches again.
    run(path, address, "again")
    assert len(history(engine)) == 2 * N_RUNS_OF_THE_HARNESS * N_JOBS


def test_recorded_jobs_and_their_order_do_not_depend_on_the_number_of_workers(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path)
    run(path, address)
    other = replace(parse_address(str(tmp_path / "other.db")), site="tiny")
    with Session(store.create(other)) as session, session.begin():
        put_site(session, read_site_file(tmp_path / "tiny.toml"))
    run(path, other, "with-two", workers=2)
    assert history(store.open_database(other)) == history(engine)


def test_preempted_and_lost_runs_are_not_learned(address: Address, engine: Engine, tmp_path: Path) -> None:
    failures = "[failures]\nmean_time_between_failures_s = 60\nmean_time_to_repair_s = 20\n"
    run(tiny_experiment(tmp_path, failures), address)
    facts = traced(tmp_path / "out")
    ended = facts.filter(event=Fact.RUN_ENDED)
    assert len(facts.filter(event=Fact.RUN_LOST)) > 0
    assert len(history(engine)) == len(ended)
    # Run times are the truth of whole runs: exact ones, here.
    assert {round(float(str(row[-1])), 6) for row in history(engine)} <= {6.0, 10.0, 30.0, 100.0, 300.0}


def test_an_interrupted_experiment_resumes_with_its_first_estimates_and_records_nothing_twice(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path, "[experience]\nlearning = 'run'\n")
    run(path, address, "whole", learns=False)

    def interrupt(done: int) -> None:
        if done == len(SCHEDULERS):  # a replication is recorded when all of its runs are done
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run(path, address, listener=RecordingListener(interrupt))
    recorded = len(history(engine))
    assert 0 < recorded < N_RUNS_OF_THE_HARNESS * N_JOBS
    teach(engine, *[500.0] * 60)  # meanwhile somebody else's runs change what is believed
    run(path, address)
    assert len(history(engine)) == N_RUNS_OF_THE_HARNESS * N_JOBS + 60
    assert traced(tmp_path / "out").equals(traced(tmp_path / "whole"))


def test_a_server_that_recovers_during_the_run_receives_everything(server: Server, tmp_path: Path) -> None:
    address = put_tiny_site(server.new_database(), tmp_path)
    with ExitStack() as outage:

        def stop_and_start(done: int) -> None:
            if done == len(SCHEDULERS):
                outage.enter_context(server.being_down())
            if done == 2 * len(SCHEDULERS):
                outage.close()

        listener = RecordingListener(stop_and_start)
        run(tiny_experiment(tmp_path), address, listener=listener)
    gone, back = listener.sentences
    assert "the server does not answer" in gone
    assert "records are kept until they can be written" in gone
    assert back.endswith("the database can be reached again, and has everything")
    assert len(history(store.open_database(address))) == N_RUNS_OF_THE_HARNESS * N_JOBS


def test_jobs_that_a_server_cannot_take_are_kept_in_a_file_for_later(server: Server, tmp_path: Path) -> None:
    address = put_tiny_site(server.new_database(), tmp_path)
    path = tiny_experiment(tmp_path)
    leftover = tmp_path / "out" / "unrecorded.csv"
    with ExitStack() as outage:
        listener = RecordingListener(
            lambda done: outage.enter_context(server.being_down()) if done == len(SCHEDULERS) else None
        )
        comparison = run(path, address, listener=listener)
        assert comparison.faults == []
        _, kept = listener.sentences
        assert kept == (
            f"48 jobs could not be recorded and are kept in {leftover}; record them later with: "
            f"sil db history --import {leftover} --db '{address}#tiny'"
        )
    url = f"{address.url.render_as_string(hide_password=False)}#tiny"
    told = sil("db", "history", "--import", str(leftover), "--db", url)
    assert "48 jobs" in told.stdout, told.output
    assert len(history(store.open_database(address))) == N_RUNS_OF_THE_HARNESS * N_JOBS
    assert "already" in the_sentence(sil("db", "history", "--import", str(leftover), "--db", url))


def test_a_file_of_unrecorded_jobs_is_deleted_after_everything_is_recorded(
    address: Address, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    recording.write(tmp_path / "out" / "unrecorded.csv", [])
    run(tiny_experiment(tmp_path), address)
    assert not (tmp_path / "out" / "unrecorded.csv").exists()


# -- what an experiment uses of a database -----------------------------------------------------------------


def test_estimates_come_from_the_history(address: Address, engine: Engine, tmp_path: Path) -> None:
    """The history makes the machine f1 three times as fast as staff said; all else is as they said."""
    teach(engine, *[3.0] * 30)
    run(tiny_experiment(tmp_path, "mix = { short = 1 }", jobs="4"), address, learns=False)
    started = traced(tmp_path / "out").filter(event=Fact.RUN_STARTED)
    assert set(started.filter(pl.col("resource") == 0)["expected_s"].round(6)) == {3.0}


def test_resources_down_at_the_site_are_reported_and_down_in_the_run(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    with Session(engine) as session, session.begin():
        StateWriter(session, SiteReader(session, "tiny")).add("f1", Observation(up=False), 1.7e9)
    listener = RecordingListener()
    run(tiny_experiment(tmp_path), address, learns=False, listener=listener)
    assert listener.sentences == ["down at the site, and in the experiment from its beginning: f1"]
    facts = traced(tmp_path / "out")
    assert set(facts.filter(event=Fact.MACHINE_DOWN)["time_s"]) == {0.0}
    started = facts.filter(event=Fact.RUN_STARTED)
    assert 0 not in set(started["resource"])
    assert 0 not in one_row_per_machine(started)["machines"].to_list()


def test_a_site_cannot_be_used_as_of_a_time_without_any_estimate_for_a_class(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    teach(engine, 10.0)
    teach(engine, 100.0, job_class="long")
    commands = TINY_SITE.replace("sequential_s = { fast = 100, slow = 300 }", 'commands = { fast = "long" }')
    (tmp_path / "tiny.toml").write_text(commands)
    with Session(engine) as session, session.begin():
        put_site(session, read_site_file(tmp_path / "tiny.toml"))
    path = tiny_experiment(tmp_path, site_text=commands)
    run(path, address, learns=False)
    with pytest.raises(DatabaseTrouble, match="cannot be used as of run 1: job class 'long' has no time"):
        run(path, address, "then", learns=False, as_of=1)


def test_results_are_recorded_in_a_separate_database(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    failures = "[failures]\nmean_time_between_failures_s = 100\nmean_time_to_repair_s = 20\n"
    run(tiny_experiment(tmp_path, failures), address, learns=False)
    facts = traced(tmp_path / "out")
    results = store.open_file(tmp_path / "out" / "results.db")
    assert len(history(results)) == count(results, JobRow) == N_RUNS_OF_THE_HARNESS * N_JOBS
    with Session(results) as session:
        sources = session.scalars(select(SourceRow).order_by(SourceRow.id)).all()
        assert {(s.kind, s.name, s.scheduler, s.replication) for s in sources} == {
            ("testbed", "tiny-experiment", scheduler, replication)
            for scheduler in ("mct", "sjs")
            for replication in range(3)
        } | {("testbed", "tiny-experiment", None, None)}  # all of them together
        predictions = session.scalars(select(PredictionRow)).all()
        states = session.scalars(select(MachineStateRow)).all()
    assert len(predictions) == N_RUNS_OF_THE_HARNESS * N_JOBS
    assert all(p.predicted_s == p.actual_s for p in predictions)  # run times are exact here
    down = facts.filter(event=Fact.MACHINE_DOWN)
    assert sorted(s.since_unix_s for s in states if not s.up) == sorted(down["time_s"])


def test_the_past_of_results_is_never_far_from_a_snapshot(
    address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most SNAPSHOT_EVERY completed runs, and those of one run of the harness."""
    monkeypatch.setattr(writer, "SNAPSHOT_EVERY", N_JOBS + 1)
    run(tiny_experiment(tmp_path), address, learns=False)
    with Session(store.open_file(tmp_path / "out" / "results.db")) as session:
        numbers = session.scalars(select(ExecutionSnapshotRow.number).distinct()).all()
    assert sorted(numbers) == [2 * N_JOBS * k for k in (1, 2, 3)]


def test_a_site_file_and_its_imported_database_give_the_same_trace(address: Address, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path)
    run(path, address, "from-database", learns=False)
    run(path, out="from-file", learns=False)
    one, other = ((tmp_path / name / "trace.parquet").read_bytes() for name in ("from-database", "from-file"))
    assert one == other


def test_an_experiment_repeated_as_of_a_past_run_is_equal_and_not_learned_twice(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path)
    teach(engine, *[3.0] * 30)
    run(path, address, "first")
    teach(engine, *[500.0] * 200)
    n = len(history(engine))
    run(path, address, "again", as_of=30)
    one, other = ((tmp_path / name / "trace.parquet").read_bytes() for name in ("first", "again"))
    assert one == other
    assert len(history(engine)) == n
    assert read_trace(tmp_path / "again" / "trace.parquet")[1].runs_known == 30
    # Its own results are a database, too, that knows what it began with.
    results = parse_address(str(tmp_path / "first" / "results.db"))
    run(path, results, "third", learns=False, as_of=30)
    assert (tmp_path / "third" / "trace.parquet").read_bytes() == one


def test_an_interrupted_run_as_of_the_past_is_not_resumed_with_the_history_of_today(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    path = tiny_experiment(tmp_path)
    teach(engine, *[3.0] * 30)
    teach(engine, *[500.0] * 200)

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        run(path, address, learns=False, listener=RecordingListener(interrupt), as_of=30)
    assert (tmp_path / "out" / "unfinished.db").exists()
    run(path, address, "out", learns=False)
    run(path, address, "fresh", learns=False)
    assert read_trace(tmp_path / "out" / "trace.parquet")[1].runs_known == 230
    resumed, fresh = ((tmp_path / name / "trace.parquet").read_bytes() for name in ("out", "fresh"))
    assert resumed == fresh


def test_an_as_of_run_in_the_future_is_rejected(address: Address, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'tiny' can be read as of run 0 to 0, not as of run 7$"):
        run(tiny_experiment(tmp_path), address, learns=False, as_of=7)


# -- users and sizes ---------------------------------------------------------------------------------------

STAFF = """
only_listed_users = true

[[queues]]
name = "day"

[[users]]
name = "ann"
most_jobs = 2

[[users]]
name = "bob"

[[users.may_submit_as]]
user = "ann"
"""


def with_staff(text: str) -> str:
    head, _, tables = STAFF.strip().partition("\n")
    return text.replace('name = "tiny"\n', f'name = "tiny"\n{head}\n', 1) + tables


@pytest.mark.reads_report
def test_refused_submissions_are_recorded_with_their_reason(tmp_path: Path) -> None:
    workload = (
        'users = { ann = 1, "bob as ann" = 1, bob = 1, "ann as bob" = 1, eve = 1 }\nqueues = { day = 1 }'
    )
    path = tiny_experiment(tmp_path, workload, site_text=with_staff(TINY_SITE), jobs="40", replications="1")
    run(path, learns=False)
    facts = traced(tmp_path / "out")
    arrived = facts.filter(event=Fact.JOB_ARRIVED).select("scheduler", "job", "user", "submitted_by")
    refused = facts.filter(event=Fact.JOB_REFUSED).select("scheduler", "job", "detail")
    both = arrived.join(refused, on=("scheduler", "job"), how="left")
    of_eve = both.filter(pl.col("user") == "eve")
    assert len(of_eve) > 0
    assert of_eve["detail"].str.contains("eve").all()
    as_bob = both.filter((pl.col("user") == "bob") & (pl.col("submitted_by") == "ann"))
    assert len(as_bob) > 0
    assert as_bob["detail"].str.contains("user 'ann' may not submit to queue 'day' as 'bob'").all()
    of_bob = both.filter((pl.col("user") == "bob") & pl.col("submitted_by").is_null())
    assert of_bob["detail"].is_null().all()
    # All arrive at once: two of ann's get in, whoever submits them.
    of_ann = both.filter((pl.col("scheduler") == "mct") & (pl.col("user") == "ann"))
    assert len(of_ann.filter(pl.col("detail").is_null())) == 2
    with Session(store.open_file(tmp_path / "out" / "results.db")) as session:
        states = session.scalars(select(JobRow.state)).all()
        reasons = session.scalars(select(JobRow.reason).where(JobRow.state == "refused")).all()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    n = len(refused.filter(pl.col("scheduler") == "mct"))
    assert summary["refusals"][0].startswith(
        f"mct: {n} of 40 jobs were refused, and count in no other metric; the first because "
    )
    share = summary["points"][0]["schedulers"]["mct"]["refused_share"]["value"]["mean"]
    assert share == pytest.approx(100 * n / 40)
    assert "jobs were refused, and count in no other metric" in (tmp_path / "out" / "report.html").read_text()
    assert states.count("refused") == len(refused) == len([reason for reason in reasons if reason])


def test_jobs_have_the_sizes_of_their_class_and_larger_ones_take_longer(
    address: Address, engine: Engine, tmp_path: Path
) -> None:
    of = "short", "ann", "day", JobState.DONE, 0.0, "f1", 1, 0.0
    jobs = [JobRecord(str(k), *of, 2.0 * k + 1.0, size=float(k)) for k in range(1, 40)]
    with Session(engine) as session, session.begin():
        JobWriter(session, "tiny").add(session, Source(SourceKind.FILE, "sized"), jobs)
    workload = "mix = { short = 1 }\nsizes = { short = [5, 30] }\n"
    run(tiny_experiment(tmp_path, workload, jobs="30"), address, learns=False)
    facts = traced(tmp_path / "out")
    sizes = facts.filter(event=Fact.JOB_ARRIVED).select("scheduler", "replication", "job", "size")
    assert set(sizes["size"]) == {5.0, 30.0}
    started = facts.filter((pl.col("event") == Fact.RUN_STARTED) & (pl.col("resource") == 0))
    on_f1 = started.join(sizes, on=("scheduler", "replication", "job"), suffix="_of_job")
    expected = {
        (size, round(expected_s, 6)) for size, expected_s in on_f1.select("size_of_job", "expected_s").rows()
    }
    assert expected == {(5.0, 11.0), (30.0, 61.0)}


# -- mistakes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"learns": True}, "with learn=True, say with site= which database is to learn"),
        ({"learns": False, "as_of": 3}, "with as_of=, say with site= which database has the history"),
    ],
)
def test_what_needs_a_database_is_rejected_without_one(
    choice: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        run(tiny_experiment(tmp_path), **choice)
    assert not (tmp_path / "out").exists()


def test_a_database_does_not_learn_from_notional_machines(address: Address, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, '[[notional]]\nadd = "2 x fast"\n')
    with pytest.raises(UserError, match="would learn from machines that do not exist"):
        run(path, address)


def test_results_never_replace_their_source_database(address: Address, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path)
    run(path, address, learns=False)
    results = tmp_path / "out" / "results.db"
    before = results.read_bytes()
    with pytest.raises(UserError, match="would replace the database"):
        run(path, parse_address(str(results)), learns=False)
    assert results.read_bytes() == before


def test_a_site_without_machines_cannot_be_used(tmp_path: Path) -> None:
    """As one is that an archive log has made, which tells of no machines."""
    (tmp_path / "log.swf").write_text("1 0 5 100 4 -1 -1 4 200 -1 1 3 1 7 1 2 -1 -1\n")
    database = tmp_path / "site.db"
    succeeded("db", "init", "--db", database)
    succeeded("db", "import-swf", tmp_path / "log.swf", "--db", f"{database}#archive")
    sentence = the_sentence(sil("run", tiny_experiment(tmp_path), "--site", database))
    assert sentence == f"{database}: the site 'archive' cannot be used: the site has no machines"


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        ("nowhere.db", "nowhere.db: there is no such file; `sil db init` makes a database"),
        ("site.db#moon", "the database has no site 'moon'; it has tiny"),
        ("mysql://x/y", "'mysql://x/y' is not a supported database address"),
    ],
)
def test_an_unusable_database_is_reported_before_anything_runs(site: str, sentence: str, here: Path) -> None:
    path = tiny_experiment(here)
    succeeded("db", "init")
    succeeded("db", "import", "tiny.toml")
    assert sentence in the_sentence(sil("run", str(path), "--site", site, "--out", "out"))
