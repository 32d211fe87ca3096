"""Experiments from Python: their results are those of the command, with classes of the caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sil
from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule
from sil.experiment import run
from tests.builders import tiny_experiment
from tests.commands import sil as command
from tests.sil.api.of_the_caller import Mine

WITHOUT_MEASURED_TIMES = ("trace.parquet", "jobs.csv")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tiny_experiment(tmp_path, replications="3")


@pytest.fixture
def experiment(path: Path) -> sil.Experiment:
    return sil.Experiment.read(path)


def results_of(experiment: sil.Experiment, schedulers: object, **how: Any) -> sil.ExperimentResults:
    return experiment.run(schedulers, progress=False, **how)


def test_results_are_the_bytes_of_the_command(path: Path, experiment: sil.Experiment, tmp_path: Path) -> None:
    command("run", str(path), "--out", str(tmp_path / "out"), "--seed", "7")
    saved = results_of(experiment.with_(seed=7), None).save(tmp_path / "saved")
    for name in WITHOUT_MEASURED_TIMES:
        assert (saved / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), name
    assert {file.name for file in saved.iterdir()} == {file.name for file in (tmp_path / "out").iterdir()}
    assert sil.read_results(saved).schedulers == list(experiment.settings.schedulers)


def test_a_class_of_the_caller_is_compared_with_built_in_schedulers(experiment: sil.Experiment) -> None:
    found = results_of(experiment, ["mct", Mine, "olb"])
    waiting = found.comparison.filter(pl.col("metric") == "mean_turnaround")
    assert waiting["scheduler"].to_list() == ["mct", "Mine", "olb"]
    assert waiting["difference"].to_list()[:2] == [None, 0.0]
    assert waiting["mean"][0] == pytest.approx(
        found.jobs.filter(pl.col("scheduler") == "mct")
        .group_by("replication")
        .agg(pl.mean("turnaround_time"))["turnaround_time"]
        .mean()
    )
    assert len(found.jobs) == 3 * found.trace.filter(pl.col("scheduler") == "mct")["job"].n_unique() * 3
    assert "turnaround-1" in found.charts


def test_a_grid_has_a_column_for_each_of_its_settings(experiment: sil.Experiment) -> None:
    found = results_of(experiment.with_(grid={"workload.jobs": [5, 8]}), "mct").comparison
    assert found["workload.jobs"].unique().to_list() == [5, 8]


def test_workers_and_dictionaries_give_the_same_results(experiment: sil.Experiment) -> None:
    here = results_of(experiment, {"a": Mine, "b": "olb"})
    apart = results_of(experiment, {"a": sil.factory(Mine), "b": "olb"}, workers=2)
    assert here.trace.equals(apart.trace)
    assert here.schedulers == ["a", "b"]


@pytest.mark.parametrize("how", [{}, {"isolate": True, "workers": 1}])
def test_a_fault_is_raised_or_kept(experiment: sil.Experiment, how: dict[str, Any]) -> None:
    fails = {"olb": "olb", "mine": sil.factory(Mine, fails_at=0)}
    with pytest.raises(sil.SchedulerFault, match="no such machine") as raised:
        results_of(experiment, fails, **how)
    assert isinstance(raised.value.__cause__, KeyError) == (not how)
    kept = results_of(experiment, fails, on_fault="keep", **how)
    assert len(kept.faults) == 1
    assert kept.comparison.filter(scheduler="mine")["mean"].is_null().all()
    assert not kept.comparison.filter(scheduler="olb")["mean"].is_null().any()


def test_ctrl_c_returns_the_replications_that_are_done(experiment: sil.Experiment, tmp_path: Path) -> None:
    calls = 0

    class Interrupts(Mct):
        def schedule(self, problem: MappingProblem) -> Schedule:
            nonlocal calls
            calls += problem.now_s == 0
            if calls > 2:
                raise KeyboardInterrupt
            return super().schedule(problem)

    at_once = experiment.with_(workload={"arrivals": {"kind": "at_once"}}, guard={"ask_twice": False})
    with pytest.warns(UserWarning, match="5 of 6 runs are done; .* first 2 replications"):
        found = results_of(at_once, {"olb": "olb", "mine": Interrupts}, folder=tmp_path / "out")
    assert found.jobs["replication"].unique().to_list() == [0, 1]
    whole = results_of(at_once, {"olb": "olb", "mine": Mct}, folder=tmp_path / "whole")
    assert found.trace.equals(whole.trace.filter(pl.col("replication") < 2))
    assert (tmp_path / "out" / "unfinished.db").exists()


def test_ctrl_c_while_results_are_written_returns_what_is_done(
    experiment: sil.Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    render, calls = run.render, 0

    def interrupted(out: Path) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise KeyboardInterrupt
        return render(out)

    monkeypatch.setattr(run, "render", interrupted)
    with pytest.warns(UserWarning, match="6 of 6 runs are done; .* first 3 replications"):
        found = results_of(experiment, ["olb", "mct"])
    assert found.jobs["replication"].n_unique() == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"replication": 3}, "unknown key 'replication'; did you mean 'replications'"),
        ({"workload": {"jobs": 0}}, "jobs"),
        ({"grid": {"workload.jobs": [1]}, "workload": {"job": 1}}, "unknown key 'job'"),
        ({"add": "8 x spam-2000 times"}, "spam"),
        ({"schedulers": ["mct", "mct"]}, "two schedulers are named mct"),
        ({"schedulers": "easy"}, "starts jobs on free nodes"),
        ({"schedulers": [7]}, "7 is no scheduler"),
    ],
)
def test_mistakes_are_told_in_one_sentence(
    experiment: sil.Experiment, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(sil.UserError, match=message):
        results_of(experiment.with_(**settings), None)


def test_a_setting_that_the_grid_varies_is_not_set_in_vain(experiment: sil.Experiment) -> None:
    varied = experiment.with_(grid={"workload.jobs": [5, 8]})
    with pytest.raises(sil.UserError, match=r"workload\.jobs has the values of the grid"):
        varied.with_(workload={"jobs": 9})
    assert varied.with_(workload={"jobs": 9}, grid={}).settings.drawn.jobs == 9


def test_of_tables_the_given_keys_change_and_mappings_are_replaced(experiment: sil.Experiment) -> None:
    poisson = {"kind": "poisson", "jobs_per_quantum": 2.0, "quantum_s": 30.0}
    drawn = experiment.with_(workload={"arrivals": poisson}).settings.drawn
    assert drawn.arrivals.model_dump() == poisson
    assert drawn.jobs == experiment.settings.drawn.jobs
    one_class = experiment.with_(workload={"mix": {"small": 1.0}}).settings.drawn.mix
    assert one_class == {"small": 1.0}


def test_unknown_names_and_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(sil.UserError, match="no built-in experiment 'spam'; expected one of"):
        sil.Experiment.builtin("spam")
    with pytest.raises(sil.UserError, match="there is no file"):
        sil.Experiment.read(tmp_path / "spam.toml")
    with pytest.raises(sil.UserError):
        sil.read_results(tmp_path)
