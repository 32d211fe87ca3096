"""A run with a scheduler in a process of its own is the same as with it in the testbed's process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.scenario import scenario_of
from sil.runs.simulation import RunKey
from sil.runs.under_test import resolve
from sil.settings import experiment_file, files
from sil.settings.replays import Engine
from sil.site.site_in_use import SiteSource
from sil.trace.facts import Fact, RunTables
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin
from tests import hostile

OWN = "tests.sil.isolation.own"
URGENT = {"name": "urgent", "priority": 2, "displaces": ["usual"], "scheduler": f"{OWN}:MapsOtherwise"}
TWO_QUEUES = [URGENT, {"name": "usual", "priority": 1}]


def tables_of(folder: Path, experiment: str, scheduler: str, isolated: bool, **settings: Any) -> RunTables:
    """Of one run of a built-in experiment."""
    path = files.find(experiment, "experiments", Path())
    read = experiment_file.read_experiment(path)
    read = experiment_file.changed(read, schedulers=(scheduler,), grid={}, replications=1, **settings)
    in_use = SiteSource(read, path.parent, None).snapshot(folder / "site.db")
    scenario = scenario_of(read, in_use, lambda name: resolve(name, isolated))
    return scenario.run(RunKey(0, 0, scheduler), folder / "printed.log")


def without_times(tables: RunTables) -> list[pl.DataFrame]:
    """Without measured decision times."""
    return [tables.facts, tables.timings.drop("wall_s", "cpu_s", "gc_s"), tables.predictions]


@pytest.mark.parametrize(
    ("experiment", "scheduler", "settings"),
    [
        ("unreliable-site", "Maps", {"workload": {"jobs": 40}}),
        ("unreliable-site", "Maps", {"workload": {"jobs": 20}, "guard": {"reasons": True}}),
        (
            "preemptive-priority",
            "Maps",
            {"workload": {"jobs": 60, "queues": {"urgent": 0.3, "usual": 0.7}}, "queues": TWO_QUEUES},
        ),
        ("slow-scheduler", "Maps", {"workload": {"jobs": 30}}),
        ("light-to-heavy", "Manager", {"workload": {"jobs": 20}}),
        ("shared-nodes", "Shares", {"workload": {"jobs": 8}}),
        ("gpu-cluster", "StartsPartsOfNodes", {"workload": {"jobs": 60}}),
    ],
    ids=["failures", "reasons", "queues", "charged", "manager", "shared-nodes", "parts-of-nodes"],
)
def test_an_experiment_has_the_same_tables(
    experiment: str, scheduler: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    name = f"{OWN}:{scheduler}"
    found = []
    for isolated in (False, True):
        tables = tables_of(tmp_path, experiment, name, isolated, **settings)
        assert tables.facts.filter(pl.col("event") == Fact.FAULT).is_empty(), tables.facts[-1].to_dicts()
        assert len(tables.facts) > 20
        found.append(without_times(tables))
    for here, there in zip(*found, strict=True):
        assert here.equals(there)


@pytest.mark.parametrize("order", ["default", "archive", "batsim"])
def test_the_replay_of_a_log_has_the_same_facts(order: str, tmp_path: Path) -> None:
    replay = Replay(some_jobs(), order=order, engine=Engine.HARNESS)
    facts = [
        replay.facts(resolve(f"{OWN}:Starts", isolated), tmp_path / "printed") for isolated in (False, True)
    ]
    assert len(facts[0]) == 3 * len(replay.log.jobs)
    assert facts[0].equals(facts[1])


def test_each_run_begins_in_a_new_process_in_which_nothing_has_been_decided(tmp_path: Path) -> None:
    replay = Replay(some_jobs(), reasons=True, engine=Engine.HARNESS, determinism_check=False)
    processes = []
    for _ in range(2):
        facts = replay.facts(resolve(f"{OWN}:SaysWhereItRuns"), tmp_path / "printed")
        reasons = facts.filter(pl.col("event") == Fact.PASSED_OVER)["detail"].to_list()
        process, first = reasons[0].split(", decision ")
        assert int(first) < 20
        assert {reason.split(",")[0] for reason in reasons} == {process}
        processes.append(process)
    assert processes[0] != processes[1]


def test_what_a_scheduler_prints_is_in_the_log_up_to_its_limit(tmp_path: Path) -> None:
    replay = Replay(some_jobs(5), engine=Engine.HARNESS)
    name = f"{hostile.__name__}:{hostile.prints_without_end.__name__}"
    replay.facts(resolve(name), tmp_path / "printed")
    printed = (tmp_path / "printed").read_text()
    assert printed.startswith("xxx")
    assert printed.endswith("more was printed than a log takes)\n")
    assert len(printed) < 1_001_000


def some_jobs(n: int = 150) -> JobLog:
    return Lublin().jobs(n, 64, np.random.default_rng(3)).at_load(0.9)
