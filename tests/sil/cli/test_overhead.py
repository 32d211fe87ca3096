"""`sil overhead`: laws of growth that are known, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scheduler.rules import RETURNS_IN_TIME
from sil.experiment.overhead import Grid, by_point, law_of, measure, random_problem
from sil.outcome.statistics import fit_power_law
from sil.world.guard.faults import PROCESS_SURVIVES
from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process")

SLOW = """
import time
from scheduler.mapping.immediate import Mct
from scheduler.model import Schedule

class Squared(Mct):
    '''Takes 0.5 us of CPU time for each pair of jobs and each machine, of which MCT needs a part.'''
    def schedule(self, problem):
        until_s = time.process_time() + 5e-7 * problem.n_jobs ** 2 * problem.n_places
        schedule = super().schedule(problem)
        while time.process_time() < until_s:
            pass
        return schedule

class Forgets(Mct):
    def schedule(self, problem):
        return Schedule.of(list(super().schedule(problem).assignments)[1:])
"""
MISBEHAVING = """
import os

class Dies(Mct):
    def schedule(self, problem):
        os.abort()

class Loops(Mct):
    def schedule(self, problem):
        while True:
            pass
"""


def test_a_law_without_noise_is_fitted_exactly() -> None:
    n, m = (axis.ravel() for axis in np.meshgrid([5.0, 20.0, 100.0], [2.0, 8.0]))
    law = fit_power_law([n, m], 3e-6 * n**1.5 * m**0.5)
    assert law.coefficient == pytest.approx(3e-6)
    assert [x.mean for x in law.exponents] == pytest.approx([1.5, 0.5])
    assert law.spread == pytest.approx(1.0)


def test_unfittable_data_are_rejected() -> None:
    with pytest.raises(ValueError, match="2 values do not determine 1 slopes"):
        fit_power_law([np.array([1.0, 2.0])], np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="do not determine"):
        fit_power_law([np.array([5.0, 5.0, 5.0, 5.0])], np.array([1.0, 2.0, 3.0, 4.0]))


def test_half_of_the_machines_are_in_clusters_and_a_share_of_jobs_can_use_them() -> None:
    problem = random_problem(20, 16, 25, 0)
    assert problem.n_places == 16 + 2
    assert np.isfinite(problem.cluster_etc_s).all(axis=1).sum() == 5
    assert np.isfinite(problem.machine_etc_s).all()


@pytest.mark.long
def test_the_growth_of_a_scheduler_with_known_cost_is_measured(importable: Path) -> None:
    (importable / "known_cost.py").write_text(SLOW)
    progress: list[int] = []
    grid = Grid((40, 80, 160), (5, 10), tables=2, repetitions=3)
    measured, faults = measure(
        ["known_cost:Squared"], grid, random_problem, 60.0, lambda done, _: progress.append(done)
    )
    assert not faults
    assert progress == list(range(1, 13))
    assert len(measured) == 12 * 3
    points = by_point(measured)
    assert points["decisions"].to_list() == [40, 40, 80, 80, 160, 160]
    assert (points["low_s"] <= points["median_s"]).all()
    assert law_of(measured, "known_cost:Squared") is not None
    # Other processes take their share of the wall time, and none of the CPU time.
    law = law_of(measured.with_columns(wall_s="cpu_s"), "known_cost:Squared")
    assert law is not None
    a, b = law.exponents
    assert abs(a.mean - 2.0) < 0.25
    assert abs(b.mean - 1.0) < 0.35
    assert law.coefficient == pytest.approx(5e-7, rel=0.5)


def test_the_command_writes_decisions_points_and_a_figure(tmp_path: Path) -> None:
    grid = ("--jobs", "5,20", "--machines", "8", "--share", "0,100", "--tables", "2", "--repetitions", "2")
    done = succeeded("overhead", "pjs", "--vs", "sjs", *grid, "--out", tmp_path / "out")
    assert "ratio to sjs" in done.output
    assert " ".join(done.output.split()).count("as a decision cost: modelled(seconds=") == 2
    assert len(pl.read_csv(tmp_path / "out" / "overhead.csv")) == 2 * 2 * 2 * 2 * 2
    assert len(pl.read_csv(tmp_path / "out" / "points.csv")) == 2 * 2 * 2
    assert (tmp_path / "out" / "overhead.png").stat().st_size > 10_000


def test_a_scheduler_that_breaks_a_rule_is_reported_and_the_others_are_printed_as_json(
    importable: Path,
) -> None:
    (importable / "forgetful.py").write_text(SLOW)
    grid = ("--jobs", "5,10,20", "--machines", "5,10", "--tables", "2", "--repetitions", "1", "--json")
    done = sil("overhead", "forgetful:Forgets", "--vs", "mct", *grid, "--out", importable / "out")
    assert done.exit_code == 1
    assert "Fault:" in done.stderr
    found = json.loads(done.stdout)
    assert (len(found["points"]), len(found["laws"]["mct"]["exponents"])) == (6, 2)


@pytest.mark.parametrize(("kind", "rule"), [("Dies", PROCESS_SURVIVES), ("Loops", RETURNS_IN_TIME)])
def test_a_misbehaving_scheduler_does_not_stop_the_measurement_of_others(
    kind: str, rule: str, importable: Path
) -> None:
    (importable / "of_all_kinds.py").write_text(SLOW + MISBEHAVING)
    grid = Grid((5, 10), (5,), tables=1, repetitions=2)
    names = [f"of_all_kinds:{kind}", "mct"]
    measured, faults = measure(names, grid, random_problem, 2.0, lambda done, total: None)
    assert [(name, fault.rule) for name, fault in faults.items()] == [(names[0], rule)]
    assert measured["scheduler"].to_list() == ["mct"] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("easy",), "needs one that maps jobs to machines"),
        (("sjs", "--jobs", "many"), "--jobs is 'many'; expected whole numbers with commas between them"),
        (("sjs", "--machines", "0"), "--machines names 0; expected 1 to"),
        (("sjs", "--share", "101"), "--share names 101; expected 0 to 100"),
        (("sjs", "--site", "nowhere"), "no built-in of that name"),
    ],
)
def test_invalid_options_are_reported_in_one_sentence(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    assert message in the_sentence(sil("overhead", *arguments, "--out", tmp_path))
