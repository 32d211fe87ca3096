"""Sweeps over logs: every row equals a replay, schedulers are compared by slice, and nothing gets lost."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import sqrt
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import Result

from scheduler.rules import RAISES_NOTHING
from sil.api.sweeping import Sweep
from sil.cli.replay import SweepOptions
from sil.experiment import log_sweep
from sil.experiment.log_sweep import SCHEMA, LogSweep, run_sweep, sweep_into
from sil.experiment.output_folder import UNFINISHED
from sil.outcome.comparison import SweepComparison
from sil.outcome.invariants.clean_trace import CleanTrace
from sil.outcome.metrics import REPLAY_METRICS
from sil.outcome.replayed_log import Results
from sil.runs.compiled import CompiledReplay, ReplayPart
from sil.runs.on_log import Replay
from sil.runs.under_test import UnderTest, schedulers_for_logs
from sil.settings.replays import Asking, Engine, Estimates
from sil.workers.executor import Attempt, Inline, Interrupted, Item, Listener
from sil.workers.processes import Processes
from sil.workload.job_log import JobLog
from sil.workload.slices import Slice, SlicedLog, chosen_slices, equal_slices, slices_of_size, with_warm_up
from sil.workload.swf_writing import write_swf
from sil.world.guard.faults import PROCESS_SURVIVES
from tests.commands import sil, succeeded, the_sentence
from tests.sil.experiment.test_replay import Row, log_of

pytestmark = pytest.mark.usefixtures("in_this_process")


def jobs(n: int) -> JobLog:
    """Every fifth job needs all of 4 processors; estimates exceed run times by different factors."""
    rows: list[Row] = [
        (k, 10.0 * k, 20.0 + 7 * (k % 4), 4 if k % 5 == 0 else 1 + k % 3, 60.0 + 50 * (k % 3), k % 2)
        for k in range(1, n + 1)
    ]
    return log_of(rows, 4)


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a log of 40 jobs."""
    monkeypatch.syspath_prepend(here)
    write_swf(here / "log.swf", jobs(40))
    return here


def swept(*arguments: str | Path) -> Result:
    return sil("sweep", *arguments, "--out", "out", "--workers", "1")


# -- slices ----------------------------------------------------------------------------------------------


def bounds(sliced: SlicedLog) -> list[str]:
    return [part.name for part in sliced.slices]


def numbers(part: Slice) -> list[int]:
    return part.log.jobs["job"].to_list()


@pytest.mark.parametrize("n", [1, 3, 7, 10])
def test_equal_slices_share_all_jobs_and_differ_by_one_job_at_most(n: int) -> None:
    log = jobs(10)
    slices = equal_slices(log, n).slices
    assert [*chain(*map(numbers, slices))] == log.jobs["job"].to_list()
    sizes = [len(part.log.jobs) for part in slices]
    assert len(sizes) == n
    assert max(sizes) - min(sizes) <= 1


def test_slices_of_a_size_leave_out_what_remains() -> None:
    assert bounds(slices_of_size(jobs(10), 4)) == ["0:4", "4:8"]


def test_chosen_slices_are_in_order_of_submission_and_may_count_from_the_end() -> None:
    sliced = chosen_slices(jobs(10), ["-3:", "0:2"])
    assert bounds(sliced) == ["0:2", "7:10"]
    assert numbers(sliced.slices[1]) == [8, 9, 10]


def test_a_slice_knows_which_of_its_jobs_were_cut() -> None:
    log = JobLog("log", jobs(4).jobs, 4, cut=frozenset({1, 4}))
    assert [part.log.cut for part in equal_slices(log, 2).slices] == [{1}, {4}]


# -- rows ------------------------------------------------------------------------------------------------


def test_each_row_has_the_statistics_of_the_same_replay(here: Path) -> None:
    grid = ("--load", "0.7", "--load", "1", "--estimates", "user", "--estimates", "actual")
    schedulers = ("--scheduler", "easy", "--scheduler", "sjf")
    assert swept("log.swf", *grid, *schedulers, "--slices", "3", "--warm-up-jobs", "0").exit_code == 0
    table = pl.read_parquet(here / "out" / "sweep.parquet")
    assert table.schema == pl.Schema(SCHEMA)
    assert not table["warm_up_jobs"].sum()
    assert len(table) == 3 * 2 * 2 * 2
    for row in table[::5].iter_rows(named=True):
        where = ("--jobs", row["slice"], "--load", str(row["load"]), "--estimates", row["estimates"])
        one = sil("replay", "log.swf", *where, "--scheduler", row["scheduler"], "--out", "one", "--json")
        (statistics,) = json.loads(one.stdout).values()
        assert {name: row[name] for name in statistics} == statistics
        assert row["jobs"] in (13, 14)


def test_rows_are_in_order_of_log_slice_load_estimates_and_scheduler(here: Path) -> None:
    write_swf(here / "another.swf", jobs(20))
    grid = ("--slice-jobs", "20", "--load", "2", "--load", "1", "--scheduler", "fcfs", "--scheduler", "easy")
    assert swept("log.swf", "another.swf", *grid).exit_code == 0
    found = pl.read_csv(here / "out" / "sweep.csv").select("log", "slice", "load", "scheduler").rows()
    slices = [("log.swf", "0:20"), ("log.swf", "20:40"), ("another.swf", "0:20")]
    of_each = [(load, name) for load in (2.0, 1.0) for name in ("fcfs", "easy")]
    assert found == [(*part, *which) for part in slices for which in of_each]


# -- the comparison --------------------------------------------------------------------------------------

T_975_WITH_2_DEGREES = 4.302652729749464
METRIC = "bounded_slowdown_mean"


def table_of(values: dict[str, Sequence[float | None]]) -> pl.DataFrame:
    """Of schedulers with one metric on the same three slices of two logs."""
    blocks = [("a", "0:9"), ("a", "9:18"), ("b", "0:9")]
    rows = [
        {"log": log, "slice": part, "load": 1.0, "estimates": "user", "scheduler": name, METRIC: value}
        | ({"fault": "it broke a rule"} if value is None else {})
        for name, of_name in values.items()
        for (log, part), value in zip(blocks, of_name, strict=True)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def test_differences_are_paired_by_slice_with_an_interval_of_students_t() -> None:
    """Differences 2, 5 and 8: mean 5, standard deviation 3. Unpaired, the interval would be ten times as
    wide, since the slices are very different."""
    comparison = SweepComparison(table_of({"easy": (10.0, 60.0, 20.0), "mine": (12.0, 65.0, 28.0)}))
    cell = comparison.cell(0, "mine", METRIC)
    assert cell is not None
    assert cell.difference is not None
    assert cell.difference.mean == 5.0
    assert cell.difference.half_width == pytest.approx(T_975_WITH_2_DEGREES * 3.0 / sqrt(3.0))
    assert cell.change_percent is not None
    assert cell.change_percent.mean == pytest.approx(100.0 * 5.0 / 30.0)
    assert cell.value.mean == 35.0
    assert comparison.n_blocks == 3
    baseline = comparison.cell(0, "easy", METRIC)
    assert baseline is not None
    assert baseline.difference is None


def test_pairs_are_found_by_slice_whatever_the_order_of_rows() -> None:
    table = table_of({"easy": (10.0, 60.0, 20.0), "mine": (12.0, 65.0, 28.0)})
    shuffled = pl.concat([table[:3], table[3:][[2, 0, 1]]])
    cells = [SweepComparison(rows).cell(0, "mine", METRIC) for rows in (table, shuffled)]
    assert cells[0] == cells[1]


def test_another_confidence_changes_the_intervals() -> None:
    table = table_of({"easy": (10.0, 60.0, 20.0), "mine": (12.0, 65.0, 28.0)})
    cell = SweepComparison(table, 0.9).cell(0, "mine", METRIC)
    assert cell is not None
    assert cell.difference is not None
    assert cell.difference.half_width == pytest.approx(2.919985580353726 * 3.0 / sqrt(3.0))


def test_a_scheduler_with_a_fault_on_one_slice_is_not_compared_on_the_others() -> None:
    comparison = SweepComparison(table_of({"easy": (1.0, 2.0, 3.0), "odd": (1.0, None, 2.0)}))
    assert comparison.cell(0, "odd", METRIC) is None
    assert comparison.faults() == [
        "it broke a rule (a, jobs 9:18, load 1, user estimates; 1 of its 3 replays ended in a fault)"
    ]


def test_the_summary_has_the_differences_of_the_table(here: Path) -> None:
    schedulers = ("--scheduler", "fcfs", "--scheduler", "easy")
    result = swept("log.swf", "--slices", "4", *schedulers, "--json")
    summary = json.loads(result.stdout)
    assert summary == json.loads((here / "out" / "summary.json").read_text())
    table = pl.read_csv(here / "out" / "sweep.csv")
    of_each = [table.filter(scheduler=name)["waiting_time_mean"] for name in ("fcfs", "easy")]
    difference = summary["points"][0]["schedulers"]["easy"]["waiting_time_mean"]["difference"]
    assert difference["mean"] == pytest.approx((of_each[1] - of_each[0]).mean())
    assert (summary["blocks"], summary["baseline"], summary["confidence"]) == (4, "fcfs", 0.95)
    assert summary["logs"][0]["slices"] == ["0:10", "10:20", "20:30", "30:40"]


def test_the_table_says_how_its_intervals_come_about(here: Path) -> None:
    result = swept("log.swf", "--slices", "4", "--metric", "waiting_time_mean")
    told = " ".join(result.stdout.split())
    assert "Mean waiting time (s), and change relative to fcfs" in told
    assert "Means of 4 slices ± half-width of the 95 % confidence interval" in told
    assert "Student's t, 3 degrees of freedom" in told
    assert "differences are paired" in told


def test_with_one_slice_there_are_no_intervals(here: Path) -> None:
    result = swept("log.swf")
    assert "One slice, hence no confidence intervals (see --slices)." in result.stdout
    assert "±" not in result.stdout


# -- the same on every executor --------------------------------------------------------------------------

FILES = ("sweep.csv", "sweep.parquet", "summary.json")


def files(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


@pytest.mark.processes
def test_results_of_a_sweep_are_byte_identical_with_any_number_of_workers(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.experiment.replay.FEW_IN_ALL", 0)
    grid = ("--slices", "4", "--load", "0.9", "--load", "1", "--scheduler", "easy", "--scheduler", "fcfs")
    for workers in ("1", "2"):
        succeeded("sweep", "log.swf", *grid, "--out", workers, "--workers", workers)
    assert files(here / "1") == files(here / "2")


def test_rows_do_not_depend_on_the_engine() -> None:
    schedulers = schedulers_for_logs(["fcfs", "easy", "easy_sjbf", "conservative"])
    estimates = (Estimates.USER, Estimates.HISTORY)

    def rows(engine: Engine) -> pl.DataFrame:
        settings = Asking(engine=engine)
        sweep = LogSweep((equal_slices(jobs(40), 4),), schedulers, (1.0, 1.5), estimates, settings)
        return run_sweep(sweep, Inline(), Listener())

    assert rows(Engine.COMPILED).equals(rows(Engine.HARNESS))


@pytest.mark.parametrize(("few_jobs", "n_compiled"), [(79, 8), (81, 0)])
def test_the_compiled_engine_replays_short_slices_of_a_large_sweep(
    few_jobs: int, n_compiled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep has 8 replays of 10 jobs."""
    chunks, compiled = CompiledReplay.chunks, []
    checked: list[pl.DataFrame] = []
    monkeypatch.setattr(CleanTrace, "add", lambda self, facts: checked.append(facts))

    def noted(self: CompiledReplay, *arguments: Any) -> Iterator[ReplayPart]:
        compiled.append(self.log.part)
        return chunks(self, *arguments)

    monkeypatch.setattr(CompiledReplay, "chunks", noted)
    monkeypatch.setattr(log_sweep, "FEW_JOBS", few_jobs)
    sweep = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(["fcfs", "easy"]))
    run_sweep(sweep, Inline(), Listener())
    assert len(compiled) == n_compiled
    assert len(checked) == n_compiled, "their traces are checked by compiled code, too"


class Counting(Inline):
    """Counts the replays of the items that run."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, items: Iterable[Item], *callbacks: Any) -> None:
        def counted() -> Iterable[Item]:
            for item in items:
                self.count += len(item.call.args[0])
                yield item

        super().run(counted(), *callbacks)


def test_options_of_the_command_that_change_no_job_are_no_part_of_what_is_stored() -> None:
    """Otherwise a sweep would begin anew when its log is named in another way."""
    assert SweepOptions(nodes=Path("a.toml"), time_zone="UTC").asking == SweepOptions().asking == Asking()
    assert SweepOptions(decision_limit_s=3.0).asking == Asking(decision_limit_s=3.0)


def test_an_interrupted_sweep_resumes_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(["fcfs", "easy"]), (1.0, 1.5))
    sweep_into(tmp_path / "whole", sweep, Inline(), Listener())
    results, n = Replay.results, 0

    def interrupt(self: Replay, scheduler: UnderTest, printed: Path, attempt: Attempt) -> Results:
        nonlocal n
        n += 1
        if n == 12:
            raise KeyboardInterrupt
        return results(self, scheduler, printed, attempt)

    with monkeypatch.context() as patched:
        patched.setattr(Replay, "results", interrupt)
        with pytest.raises(Interrupted, match="11 of 16 runs are done"):
            sweep_into(tmp_path / "out", sweep, Inline(), Listener())
    assert not (tmp_path / "out" / "sweep.csv").exists()
    executor = Counting()
    sweep_into(tmp_path / "out", sweep, executor, Listener())
    assert executor.count == 5
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not (tmp_path / "out" / UNFINISHED).exists()


def test_what_another_sweep_left_is_not_taken_up(tmp_path: Path) -> None:
    first = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(["fcfs"]))
    second = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(["fcfs"]), (2.0,))
    larger = LogSweep((equal_slices(jobs(40).on(8), 4),), schedulers_for_logs(["fcfs"]))
    assert len({first.digest(), second.digest(), larger.digest()}) == 3
    again = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(["fcfs"]))
    assert first.digest() == again.digest()


# -- faults ----------------------------------------------------------------------------------------------

FAULTY = """
import os
from scheduler.free_nodes.rigid import Rigid

class Odd(Rigid):
    '''Misbehaves once it sees job 15, which is in the second of four slices.'''
    def schedule(self, problem):
        if any(job.id == 15 for job in problem.jobs):
            self.misbehave()
        return super().schedule(problem)

class Raises(Odd):
    def misbehave(self):
        raise LookupError("no such thing")

class Dies(Odd):
    def misbehave(self):
        os._exit(0)
"""


def test_the_fault_of_a_scheduler_is_in_its_row_and_stops_no_other_replay(here: Path) -> None:
    (here / "faulty_on_slices.py").write_text(FAULTY)
    schedulers = ("--scheduler", "fcfs", "--scheduler", "faulty_on_slices:Raises", "--scheduler", "easy")
    result = swept("log.swf", "--slices", "4", *schedulers, "--warm-up-jobs", "0")
    assert result.exit_code == 1
    table = pl.read_csv(here / "out" / "sweep.csv")
    faulty = table.filter(pl.col("fault").is_not_null())
    assert faulty.select("slice", "scheduler").rows() == [("10:20", "faulty_on_slices:Raises")]
    assert f"broke the rule {RAISES_NOTHING} (at " in faulty["fault"][0]
    assert faulty["waiting_time_mean"].null_count() == 1
    assert table["waiting_time_mean"].null_count() == 1
    told = " ".join(result.stderr.split())
    assert told.count("Fault:") == 1
    assert "(log.swf, jobs 10:20, load 1, user estimates; 1 of its 4 replays ended in a fault)" in told
    (line,) = [line for line in result.stdout.splitlines() if "faulty_on_slices:Raises" in line]
    assert line.split()[-1] == "-", "it is compared on no selection of slices"


def test_a_scheduler_that_ends_its_process_costs_only_its_own_replay(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "faulty_on_slices.py").write_text(FAULTY)
    monkeypatch.setattr(log_sweep, "ITEMS", 1)  # all replays are one item, which dies
    names = ["fcfs", "faulty_on_slices:Dies", "easy"]
    sweep = LogSweep((equal_slices(jobs(40), 4),), schedulers_for_logs(names))
    with Processes(2) as executor:
        table = run_sweep(sweep, executor, Listener(), printed=here)
    faulty = table.filter(pl.col("fault").is_not_null())
    assert faulty.select("slice", "scheduler").rows() == [("10:20", "faulty_on_slices:Dies")]
    assert f"broke the rule {PROCESS_SURVIVES}" in faulty["fault"][0]
    assert table["waiting_time_mean"].null_count() == 1
    good = LogSweep(sweep.logs, schedulers_for_logs(["fcfs", "easy"]))
    others = table.filter(pl.col("scheduler").is_in(["fcfs", "easy"]))
    assert others.equals(run_sweep(good, Inline(), Listener()))


# -- what is refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    {
        "missing.swf": "missing.swf: there is no such file",
        "log.swf --load 0": "the load cannot be multiplied by 0; a factor above 0 is needed",
        "log.swf --load 1 --load 1.0": "the load 1 is given twice; give each once",
        "log.swf --scheduler easy --scheduler easy": "the scheduler easy is given twice; give each once",
        "log.swf --estimates user --estimates user": "the kind of estimates user is given twice",
        "log.swf log.swf": "the log file name log.swf is given twice; give each once",
        "log.swf --slices 41": "40 jobs cannot be cut into 41 slices; give a number from 1 to 40",
        "log.swf --slice-jobs 41": "40 jobs make no slice of 41; give a number from 1 to 40",
        "log.swf --jobs 50:60": "there are no jobs 50:60; the log has 40 jobs",
        "log.swf --jobs 7": "jobs '7' cannot be read",
        "log.swf --jobs 5:9 --jobs 0:6": "slices 0:6 and 5:9 overlap; give slices without common jobs",
        "log.swf --slices 2 --jobs 0:9": "--slices, --slice-jobs and --jobs all say what the slices are; "
        "give one of them",
        "log.swf --metric wating_time_mean": "unknown metric 'wating_time_mean'; expected one of "
        + ", ".join(REPLAY_METRICS),
        "log.swf --order achive": "--order is 'achive'; expected one of default, archive",
        "log.swf --engine compiled --scheduler tests.faulty_on_free_nodes:ForgetsAJob": "only built-in "
        "schedulers for free nodes are compiled; replay it with --engine harness",
        "log.swf --scheduler esay": "unknown scheduler 'esay'; did you mean 'easy'?",
        "log.swf --scheduler batsim+tcp://127.0.0.1:28000": "listens for one run, but a sweep has many",
    }.items(),
)
def test_an_impossible_sweep_is_refused_in_one_sentence(arguments: str, told: str, here: Path) -> None:
    assert told in the_sentence(swept(*shlex.split(arguments)))
    assert not (here / "out").exists()


# -- warm-up -----------------------------------------------------------------------------------------------


def test_a_slice_after_all_jobs_before_it_has_the_waits_of_the_whole_log(here: Path) -> None:
    """Under FCFS no later job matters. By itself, each slice begins with an empty machine."""
    swept("log.swf", "--slices", "4", "--warm-up-jobs", "30", "--scheduler", "fcfs")
    table = pl.read_parquet(here / "out" / "sweep.parquet")
    assert table.select("jobs", "warm_up_jobs", "cool_down_jobs").rows() == [
        *((10, 0, 15), (10, 10, 15), (10, 20, 10), (10, 30, 0))
    ]
    sil("replay", "log.swf", "--scheduler", "fcfs", "--out", "whole")
    waits = pl.read_csv(here / "whole" / "fcfs" / "jobs.csv").sort("submission_time", "job_id")[
        "waiting_time"
    ]
    means = [waits[k : k + 10].mean() for k in range(0, 40, 10)]
    assert table["waiting_time_mean"].to_list() == pytest.approx(means)
    assert not table["utilisation"].null_count()
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert summary["logs"][0]["warm_up_jobs"] == [0, 10, 20, 30]
    swept("log.swf", "--slices", "4", "--warm-up-jobs", "0", "--scheduler", "fcfs")
    by_themselves = pl.read_parquet(here / "out" / "sweep.parquet")["waiting_time_mean"]
    assert by_themselves[0] == table["waiting_time_mean"][0]
    assert (by_themselves[1:] < table["waiting_time_mean"][1:]).all()


def test_by_default_the_warm_up_has_as_many_jobs_as_the_slice_and_rows_of_others_are_not_mixed_in() -> None:
    sliced = equal_slices(jobs(40), 4)
    found = with_warm_up(sliced)
    assert [(part.warm_up_jobs, part.cool_down_jobs) for part in found.slices] == [
        *((0, 5), (10, 5), (10, 5), (10, 0))
    ]
    assert numbers(found.slices[1]) == list(range(1, 26))
    assert found.slices[1].log.measured == frozenset(range(11, 21))
    marks = {
        LogSweep((with_warm_up(sliced, n),), schedulers_for_logs(["easy"])).digest() for n in (None, 0, 7, 10)
    }
    assert len(marks) == 3, "that of 10 jobs is the default"


def test_slices_with_a_warm_up_have_no_makespan(here: Path) -> None:
    refused = the_sentence(swept("log.swf", "--slices", "4", "--metric", "makespan"))
    assert "slices that other jobs come before or after have no makespan; sweep without a warm-up" in refused
    assert swept("log.swf", "--slices", "4", "--metric", "makespan", "--warm-up-jobs", "0").exit_code == 0


def test_only_measured_jobs_count_as_refused() -> None:
    rows: list[Row] = [(k, 10.0 * k, 20.0, 9 if k in (2, 12) else 1, 60.0, 1) for k in range(1, 21)]
    sliced = with_warm_up(equal_slices(log_of(rows, 4), 2))
    table = run_sweep(LogSweep((sliced,), schedulers_for_logs(["easy"])), Inline(), Listener())
    assert [text and text.partition(" jobs")[0] for text in table["refused"]] == ["easy: 1 of 10"] * 2


@pytest.mark.parametrize(
    ("rows", "difference", "left_out"),
    [
        ((0, 1, 2, 3, 4, 5), 5.0, 0),
        ((0, 1, 3, 4, 5), 3.5, 1),
        ((1, 2, 3, 4), 5.0, 2),
        ((0, 4, 5), None, 2),
        ((4, 5), None, 1),
    ],
)
def test_an_interrupted_sweep_compares_the_slices_that_both_schedulers_have(
    rows: Sequence[int], difference: float | None, left_out: int
) -> None:
    """By position, the second would pair other slices, and the others would raise."""
    table = table_of({"easy": (10.0, 60.0, 20.0), "mine": (12.0, 65.0, 28.0)})[list(rows)]
    found = Sweep(table, ("easy", "mine"))
    row = found.summary(METRIC).row(by_predicate=pl.col("scheduler") == "mine", named=True)
    assert row["difference"] == difference
    assert row["mean"] is not None
    assert len(found.notes) == left_out
