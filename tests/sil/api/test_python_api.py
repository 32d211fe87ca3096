"""The API for Python: what a notebook does, and that its results are those of the commands."""

from __future__ import annotations

import inspect
import math
import os
import re
import subprocess
import sys
import threading
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import sil
from scheduler.model import NodeSchedule
from scheduler.rules import RAISES_NOTHING
from sil.workload.swf_writing import write_swf
from sil.world.guard.faults import KEEPS_TO_MEMORY, PROCESS_SURVIVES
from tests.commands import sil as command
from tests.sil.api.of_the_caller import Raises, SmallestFirst


class Locked(SmallestFirst):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


@pytest.fixture(scope="module")
def log() -> sil.JobLog:
    return sil.lublin_feitelson(300, 64, load=0.8, seed=3)


@pytest.fixture(scope="module")
def replays(log: sil.JobLog) -> sil.Replays:
    return sil.replay(log, {"easy": "easy", "mine": SmallestFirst(cap=64)}, progress=False)


def test_a_replay_compares_built_in_schedulers_with_a_class_of_the_caller(replays: sil.Replays) -> None:
    assert replays.schedulers == ["easy", "mine"]
    metrics = replays.metrics
    assert metrics["scheduler"].to_list() == ["easy", "mine"]
    assert metrics["waiting_time_mean"].null_count() == 0
    assert metrics["fault"].to_list() == [None, None]
    jobs = replays.jobs("mine")
    assert len(jobs) == 300
    assert jobs["waiting_time"].mean() == pytest.approx(metrics["waiting_time_mean"][1])
    assert replays.trace("easy")["scheduler"].unique().to_list() == ["easy"]
    assert len(replays.decisions("mine")) > 0


def test_saved_results_are_the_bytes_of_the_command(log: sil.JobLog, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    write_swf(path, log)
    from_python = sil.replay(sil.read_log(path), ["fcfs", "easy"], progress=False).save(tmp_path / "python")
    schedulers = ("--scheduler", "fcfs", "--scheduler", "easy")
    result = command("replay", path, *schedulers, "--out", tmp_path / "command")
    assert result.exit_code == 0, result.output
    of_each = [f"{name}/{file}" for name in ("fcfs", "easy") for file in ("trace.parquet", "jobs.csv")]
    for name in (*of_each, "summary.json"):
        assert (from_python / name).read_bytes() == (tmp_path / "command" / name).read_bytes(), name
    assert (from_python / "report.html").is_file()
    assert_frame_equal(sil.read_replays(tmp_path / "command").metrics, sil.read_replays(from_python).metrics)


def test_an_instance_is_copied_for_each_run(log: sil.JobLog) -> None:
    mine = SmallestFirst()
    first, second = (sil.replay(log, {"mine": mine}, progress=False).jobs("mine") for _ in range(2))
    assert mine.calls == 0
    assert_frame_equal(first, second)


def test_names_of_own_schedulers_tell_their_arguments(log: sil.JobLog) -> None:
    found = sil.replay(log[:50], [sil.factory(SmallestFirst, cap=c) for c in (64, 128)], progress=False)
    assert found.schedulers == ["SmallestFirst(cap=64)", "SmallestFirst(cap=128)"]
    assert sil.replay(log[:50], SmallestFirst, progress=False).schedulers == ["SmallestFirst"]
    made = sil.replay(log[:50], {"mine": partial(SmallestFirst, cap=64)}, progress=False)
    assert len(made.jobs("mine")) == 50, "functions that make schedulers need no name"


def test_an_exception_in_a_scheduler_keeps_its_traceback(log: sil.JobLog) -> None:
    with pytest.raises(sil.SchedulerFault) as raised:
        sil.replay(log, {"mine": Raises()}, progress=False)
    assert raised.value.rule == RAISES_NOTHING
    assert isinstance(raised.value.__cause__, KeyError)
    assert 'raise KeyError("no such queue")' in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("how", [{}, {"isolate": True}])
def test_a_fault_says_which_scheduler_it_was_and_when(log: sil.JobLog, how: dict[str, Any]) -> None:
    with pytest.raises(sil.SchedulerFault) as raised:
        sil.replay(log, {"mine": SmallestFirst(64), "other": Raises}, progress=False, **how)
    time_s = raised.value.time_s
    assert time_s > 0
    assert str(raised.value).startswith(f"other broke the rule raises-nothing (at {time_s:.12g} s): Raises.")


def test_a_fault_can_be_kept_beside_the_results_of_others(log: sil.JobLog) -> None:
    found = sil.replay(log, {"easy": "easy", "mine": Raises}, on_fault="keep", progress=False)
    assert list(found.faults) == ["mine"]
    assert "no such queue" in found.faults["mine"]
    assert found.metrics["waiting_time_mean"].is_null().to_list() == [False, True]


def test_in_processes_of_their_own_schedulers_do_the_same_and_one_that_exits_harms_no_other(
    log: sil.JobLog, replays: sil.Replays
) -> None:
    class Exits(SmallestFirst):
        def schedule(self, problem: Any) -> NodeSchedule:
            os._exit(1)

    three = {"mine": SmallestFirst(cap=64), "raises": Raises, "exits": Exits}
    apart = sil.replay(log, three, isolate=True, on_fault="keep", progress=False)
    assert_frame_equal(apart.trace("mine"), replays.trace("mine"))
    assert list(apart.faults) == ["raises", "exits"]
    assert "no such queue" in apart.faults["raises"]
    assert PROCESS_SURVIVES in apart.faults["exits"]


def test_a_memory_limit_holds_in_a_process_of_the_schedulers_own(log: sil.JobLog) -> None:
    class Hoards(SmallestFirst):
        def schedule(self, problem: Any) -> NodeSchedule:
            self.kept = bytearray(300 * 2**20)
            return super().schedule(problem)

    limited = sil.replay(
        log, {"mine": Hoards(cap=64)}, memory_limit_mb=100.0, on_fault="keep", progress=False
    )
    assert KEEPS_TO_MEMORY in limited.faults["mine"]


def test_a_job_is_explained_though_no_reasons_were_recorded(replays: sil.Replays) -> None:
    waited = replays.jobs("easy").sort("waiting_time")["job_id"][-1]
    text = str(replays.why("easy", waited))
    assert f"job {waited} waits: " in text
    assert "Waiting time: " in text
    with pytest.raises(sil.UserError, match="no job 99999"):
        replays.why("easy", 99_999)


def test_names_that_are_no_file_names_keep_results_apart(log: sil.JobLog, tmp_path: Path) -> None:
    found = sil.replay(log[:20], {"..": "easy", "a/b": "fcfs"}, progress=False)
    assert len(found.jobs("..")) == len(found.jobs("a/b")) == 20
    folder = found.save(tmp_path / "out" / "results")
    assert {path.name for path in folder.parent.iterdir()} == {"results"}
    with pytest.raises(sil.UserError, match="'a/b' and 'a b' would both be in"):
        sil.replay(log[:20], {"a/b": "easy", "a b": "fcfs"}, progress=False)


def test_results_can_be_saved_where_they_are(log: sil.JobLog, tmp_path: Path) -> None:
    sil.replay(log[:20], "easy", progress=False).save(tmp_path)
    (tmp_path / "report.html").unlink()
    sil.read_replays(tmp_path).save(tmp_path)
    assert (tmp_path / "report.html").is_file()


def test_charts_are_shown_and_saved(replays: sil.Replays, tmp_path: Path) -> None:
    plot = replays.plot
    names = [name for name in vars(type(plot)) if not name.startswith("_") and name != "slowdown_by_user"]
    assert len(names) == 9
    windows: list[dict[str, Any]] = [{"scheduler": "mine", "window": ("1h", "1d")}]
    windows.append({"window": ("1000d", "1001d")})
    charts = [*(plot.gantt(**window) for window in windows), *(getattr(plot, name)() for name in names)]
    for chart in charts:
        assert "vega-lite" in chart.spec["$schema"]
    charts[0].save(tmp_path / "gantt.png")
    assert (tmp_path / "gantt.png").read_bytes().startswith(b"\x89PNG")
    assert set(plot.waiting_time()._repr_mimebundle_()) == {"application/vnd.vegalite.v5+json", "image/png"}
    with pytest.raises(sil.UserError, match=r"expected \.png, \.svg, \.pdf or \.html"):
        charts[0].save(tmp_path / "gantt.txt")
    with pytest.raises(sil.UserError, match="is no time"):
        replays.plot.gantt(window=("now", "1d"))
    with pytest.raises(sil.UserError, match="users of this log are unknown"):
        replays.plot.slowdown_by_user()


def test_charts_are_listed_by_their_names(replays: sil.Replays) -> None:
    assert repr(replays.plot).startswith("Charts: waiting_time, ")
    assert "gantt" in repr(replays.plot)


def test_differences_are_those_of_each_job(replays: sil.Replays) -> None:
    baseline = "easy" if "easy" in replays.schedulers else replays.schedulers[0]
    others = [name for name in replays.schedulers if name != baseline]
    before = replays.jobs(baseline)["waiting_time"]
    found = replays.differences(block_days=0.1)
    assert found["scheduler"].unique(maintain_order=True).to_list() == others
    for row in found.filter(quantity="waiting_time").iter_rows(named=True):
        change = replays.jobs(row["scheduler"])["waiting_time"] - before
        assert row["mean"] == pytest.approx(change.mean())
        assert row["low"] <= row["mean"] <= row["high"]
        assert (row["less"], row["jobs"]) == ((change < 0).mean(), len(change))
    assert replays.differences(block_days=1e6)["low"].null_count() == len(found)
    with pytest.raises(sil.UserError, match="expected a positive number"):
        replays.differences(block_days=0)


def test_a_sweep_compares_on_the_same_slices(log: sil.JobLog) -> None:
    schedulers = ["easy", sil.factory(SmallestFirst, cap=64)]
    log, of = log[:60], {"load": [1.0, 1.2], "slices": 2, "progress": False}
    found = sil.sweep(log, schedulers, **of)
    assert len(found.table) == 8
    summary = found.summary("waiting_time_mean", ci=0.9)
    assert summary.equals(found.summary("waiting_time", ci=0.9))
    assert summary["scheduler"].to_list() == ["easy", "SmallestFirst(cap=64)"] * 2
    assert summary["difference"].is_null().to_list() == [True, False] * 2
    assert repr(found) == "Sweep of 8 replays under easy, SmallestFirst(cap=64)"
    by_hand = found.table.filter(load=1.2).partition_by("scheduler", maintain_order=True)
    difference = (by_hand[1]["waiting_time_mean"] - by_hand[0]["waiting_time_mean"]).mean()
    assert summary["difference"][3] == pytest.approx(difference)
    assert_frame_equal(found.table, sil.sweep(log, schedulers, workers=2, **of).table)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"estimates": "perfect"}, "estimates is 'perfect'; expected one of user, actual, history"),
        ({"order": "random"}, "order is 'random'; expected one of default"),
        ({"engine": "fast"}, "engine is 'fast'; expected one of auto, harness, compiled"),
        ({"on_fault": "ignore"}, "on_fault is 'ignore'; expected one of raise, keep"),
        ({"schedulers": 3}, "3 is no scheduler; expected a name, a class"),
        ({"schedulers": []}, "there is no scheduler"),
        ({"schedulers": {}}, "there is no scheduler"),
        ({"schedulers": Locked()}, "this one of Locked cannot be (TypeError"),
        ({"schedulers": ["esay"]}, "did you mean 'easy'"),
        ({"schedulers": ["olb"]}, "needs one that"),
        ({"schedulers": [SmallestFirst, SmallestFirst]}, "two schedulers are named SmallestFirst"),
        ({"schedulers": "easy", "decision_cost": "much"}, "much"),
        ({"log": "log.swf"}, "log is 'log.swf'; expected a log, as from sil.read_log(...)"),
        ({"workers": 0}, "workers is 0; expected a whole number from 1 on"),
        ({"seed": -1}, "seed is -1; expected a whole number from 0 on"),
        ({"seed": 1.5}, "seed is 1.5; expected a whole number from 0 on"),
        ({"slurm_step_s": 30}, 'slurm_step_s is for Slurm\'s controller; add schedulers="slurm"'),
        ({"pause_at_s": 5.0}, "pause_at_s is for Slurm's controller"),
        ({"decision_limit_s": 0.0}, "decision_limit_s is 0.0; expected a number from 0.001 on"),
        ({"decision_limit_s": math.inf}, "decision_limit_s is inf; expected a finite number"),
    ],
)
def test_mistakes_are_told_in_one_sentence(log: sil.JobLog, how: dict[str, Any], message: str) -> None:
    with pytest.raises(sil.UserError) as raised:
        sil.replay(**{"log": log, "schedulers": "easy", "progress": False, **how})
    assert message in str(raised.value)
    with pytest.raises(sil.UserError, match="there are no jobs"):
        log[400:]
    with pytest.raises(sil.UserError, match="overrun is 'shrink'; expected one of raise, cut"):
        sil.read_log("log.swf", overrun="shrink")
    with pytest.raises(sil.UserError, match="asked for 0 jobs"):
        sil.lublin_feitelson(0, 64)
    for logs in ("log.swf", [log, "log.swf"], None):
        with pytest.raises(sil.UserError, match="expected a log, as from"):
            sil.sweep(logs, "easy")
    with pytest.raises(sil.UserError, match="a machine cannot have 0 processors"):
        log.on(0)
    with pytest.raises(sil.UserError, match="there are no jobs in -1 seconds"):
        log.within(-1.0)


def test_ctrl_c_returns_what_is_done(log: sil.JobLog) -> None:
    class Interrupts(SmallestFirst):
        def schedule(self, problem: Any) -> NodeSchedule:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="1 of 2 runs are done; the others are left out") as caught:
        found = sil.replay(log, {"easy": "easy", "mine": Interrupts}, progress=False)
    assert found.schedulers == ["easy"]
    assert [one.filename for one in caught if "of 2 runs" in str(one.message)] == [__file__]
    assert len(found.jobs("easy")) == 300


SCRIPT = """
import sil
from scheduler.free_nodes.rigid import Rigid

class Mine(Rigid):
    pass

log = sil.lublin_feitelson(50, 16)
print(sil.sweep(log, [sil.factory(Mine, backfilling="easy"), "easy"], slices=2, workers=1).table.height)
"""


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert done.stdout == "4\n", done.stderr


def test_every_public_name_can_be_loaded_and_is_documented() -> None:
    for name in sil.__all__:
        if name == "__version__":
            continue
        public = getattr(sil, name)
        assert inspect.getdoc(public), name
        for member, value in vars(public).items() if isinstance(public, type) else ():
            if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                assert inspect.getdoc(value), f"{name}.{member}"
    assert sil.__version__
    assert dir(sil) == sorted(sil.__all__)
    with pytest.raises(AttributeError, match="no attribute 'spam'"):
        _ = sil.spam


def test_the_package_loads_nothing_until_it_is_used() -> None:
    code = "import sys, sil; print(sorted({'numpy', 'polars', 'scipy', 'gymnasium'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def lines_in_a_notebook(error: Exception) -> list[str]:
    """What IPython shows."""
    shown: Any = error
    return "\n".join(shown._render_traceback_()).splitlines()


def in_a_cell(code: str, log: sil.JobLog) -> list[str]:
    """What a notebook shows of the mistake in a cell."""
    names = {"__name__": "__main__", "sil": sil, "log": log}
    with pytest.raises((sil.UserError, sil.SchedulerFault)) as raised:
        exec(compile(code, "<cell>", "exec"), names)
    return lines_in_a_notebook(raised.value)


def test_a_notebook_shows_the_users_line_of_a_mistake_and_the_sentence(log: sil.JobLog) -> None:
    place, sentence = in_a_cell('sil.replay(log, "esay", progress=False)', log)
    assert place == '  File "<cell>", line 1, in <module>'
    assert sentence.endswith("Name a class of your own as 'module:Class'.")


def test_a_notebook_shows_the_line_of_a_scheduler_that_raised(log: sil.JobLog) -> None:
    cell = """
class Divides:
    kind = "free-nodes"

    def schedule(self, problem):
        return 1 / 0


sil.replay(log, Divides, progress=False)
"""
    called, raised, sentence = in_a_cell(cell, log)
    assert called == '  File "<cell>", line 9, in <module>'
    assert raised == '  File "<cell>", line 6, in schedule'
    assert sentence.startswith("SchedulerFault: Divides broke the rule raises-nothing")


TABLE = {"submit_s": [0.0, 60.0, 60.0], "run_s": [30.0, 90.0, 0.5], "processors": [1, 2, 2]}


class ArrowTable:
    """Columns as PyArrow's tables have them."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns, self.column_names = columns, [*columns]

    def __getitem__(self, name: str) -> list[Any]:
        return self._columns[name]


@pytest.mark.parametrize("made", [dict, pl.DataFrame, ArrowTable])
def test_a_table_is_a_log(made: Any) -> None:
    table = {**TABLE, "user": ["ann", "bob", "ann"], "colour": [1, 2, 3]}
    log = sil.log_from(made(table), 4)
    assert log.jobs.rows() == [(1, 0, 30, 1, 30, 0), (2, 60, 90, 2, 90, 1), (3, 60, 1, 2, 1, 0)]
    assert log.users == {0: "ann", 1: "bob"}
    assert log.notes[0].startswith("columns left out: colour;")
    assert log.notes[1] == "1 run of less than 1 s; raised to 1 s"
    assert sil.replay(log, "fcfs", progress=False).metrics["makespan"].item() == 150


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"run_s": ["a", "b", "c"]}, "row 0: run_s is 'a'; expected a number"),
        ({"run_s": [1.0, math.nan, 1.0]}, "row 1: run_s is nan; expected seconds"),
        ({"run_s": [1.0, None, 1.0]}, "row 1: run_s is None; expected a number"),
        ({"processors": [1, 2, 2.5]}, "row 2: processors is 2.5; expected a whole number"),
        ({"processors": [1, 2, 8]}, "row 2: processors is 8; expected 1 to 4 processors"),
        ({"submit_s": [-1, 0, 0]}, "row 0: submit_s is -1"),
        ({"job": [1, 2, 2]}, "row 1: job is 2; expected a number from 0 on that no other job has"),
        ({"run_s": [1]}, "this dict is no table"),
        ({"submit_s": [], "run_s": [], "processors": []}, "there is no row"),
    ],
)
def test_a_table_with_impossible_jobs_is_refused_with_its_row(changed: Any, message: str) -> None:
    with pytest.raises(sil.UserError, match=re.escape(message)):
        sil.log_from({**TABLE, **changed}, 4)


def test_what_is_no_table_or_no_file_is_refused_in_a_sentence() -> None:
    with pytest.raises(sil.UserError, match="this list is no table"):
        sil.log_from([1, 2], 4)
    with pytest.raises(sil.UserError, match="there is no column 'run_s'"):
        sil.log_from({"submit_s": [1]}, 4)
    frame: Any = pl.DataFrame(TABLE)
    with pytest.raises(sil.UserError, match=r"sil\.log_from for a table"):
        sil.read_log(frame)


def test_a_chart_is_written_as_a_page_that_needs_no_network(replays: sil.Replays, tmp_path: Path) -> None:
    replays.plot.waiting_time().save(tmp_path / "chart.html")
    page = (tmp_path / "chart.html").read_text()
    assert "vegaEmbed" in page
    assert not re.search("<(script|link)[^>]*(src|href)=", page)
