"""Cases: what a seed determines, and files of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sil.swarm.case import SCHEDULERS, Case, SiteKind, drawn
from sil.swarm.faults import KINDS, Fault, FaultyWorld
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import SimClock
from site_db.files.input_errors import InvalidFile


def test_a_seed_determines_a_case() -> None:
    assert drawn(5) == drawn(5) != drawn(6)


def test_the_cases_of_some_hundred_seeds_have_all_kinds_of_faults_machines_policies_and_schedulers() -> None:
    cases = [drawn(seed) for seed in range(400)]
    assert {fault.kind for case in cases for fault in case.faults} == {*KINDS}
    found = {(case.machines, case.scheduler) for case in cases}
    assert found == {(machines, name) for machines, names in SCHEDULERS.items() for name in names}
    assert {len(case.faults) for case in cases} == {0, 1, 2, 3, 4, 5}
    for policy in ("has_queues", "is_remapping", "keeps_starts"):
        assert {getattr(case, policy) for case in cases} == {True, False}
    assert {case.raised_after for case in cases} == {None, 1, 2, 3}
    assert len({case.least_gain_s for case in cases}) > 50


def test_a_case_has_only_the_kinds_of_faults_machines_and_schedulers_that_are_asked_for() -> None:
    for seed in range(50):
        case = drawn(seed, ("crashes", "clock"), [SiteKind.NODES], ["easy"], n_jobs=3, n_machines=2)
        assert {fault.kind for fault in case.faults} <= {"crashes", "clock"}
        assert (case.machines, case.scheduler) == (SiteKind.NODES, "easy")
        assert len(case.jobs) <= 3
        assert case.n_machines <= 2


def test_a_fault_that_is_left_out_changes_no_other_one() -> None:
    def world(*faults: Fault) -> FaultyWorld:
        faulty = FaultyWorld(SimClock(), 4, 5_000.0)
        for fault in faults:
            faulty.add(fault, RandomStreams(1))
        return faulty

    failures = Fault("failures", {"between_s": 500.0, "repair_s": 50.0})
    poison = Fault("failing jobs", {"share": 0.3, "after": 0.5, "times": 2})
    rack = Fault("rack", {"machines": [0, 1], "between_s": 500.0, "repair_s": 50.0})
    both, alone = world(rack, poison, failures), world(failures)
    changes = [(time_s, change) for time_s, change in both.changes]
    assert len(alone.changes) > 20
    assert all(change in changes for change in alone.changes)
    assert both.failing == world(poison).failing != {}


def test_a_case_that_is_written_and_read_again_is_the_same(tmp_path: Path) -> None:
    for seed in range(40):
        drawn(seed).write(tmp_path / "case.json")
        assert Case.read(tmp_path / "case.json") == drawn(seed)


def _put(value: object, *where: str | int) -> Callable[[dict[str, Any]], None]:
    def put(case: Any) -> None:
        *path, last = where
        for key in path:
            case = case[key]
        case[last] = value

    return put


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        (_put("x", "jobs", 0, "run_s"), "jobs.0.run_s: Input should be a valid number"),
        (_put(1e14, "jobs", 0, "run_s"), "jobs.0.run_s: Input should be less than or equal to 10000000"),
        (_put(0.0, "jobs", 0, "run_s"), "jobs.0.run_s: Input should be greater than"),
        (_put([], "jobs"), "jobs: Tuple should have at least 1 item"),
        (_put("moon", "machines"), "machines: Input should be 'different machines'"),
        (_put(10**9, "n_machines"), "n_machines: Input should be less than"),
        (_put(1e6, "jobs", 0, "arrival_s"), "jobs: they are not in order of arrival"),
        (_put(1, "jobs", 0, "id"), "jobs: two have the same id"),
        (_put("rain", "faults", 0, "kind"), "faults.0: there is no kind of fault 'rain'"),
        (_put({}, "faults", 0, "parameters"), "faults.0: the parameters of 'partition' are machines, from_s"),
        (_put([9], "faults", 0, "parameters", "machines"), "faults.0: machines is [9], which 'partition'"),
        (_put(-1.0, "faults", 0, "parameters", "for_s"), "faults.0: for_s is -1.0, which 'partition'"),
        (_put(10**12, "faults", 1, "parameters", "jumps"), "faults.1: jumps is 1000000000000, which 'clock'"),
        (_put(True, "faults", 1, "parameters", "jumps"), "faults.1: jumps is True, which 'clock'"),
        (_put(1.0, "faults", 2, "parameters", "share"), "faults.2: share is 1.0, which 'wrong decisions'"),
    ],
)
def test_a_mistake_in_a_file_is_named(
    change: Callable[[dict[str, Any]], None], mistake: str, tmp_path: Path
) -> None:
    path = tmp_path / "case.json"
    seed = next(seed for seed in range(9_999) if len(drawn(seed).jobs) > 2)
    drawn(seed).write(path)
    case = json.loads(path.read_text())
    case["n_machines"] = 4
    case["faults"] = [
        {"kind": "partition", "parameters": {"machines": [0], "from_s": 0.0, "for_s": 9.0}},
        {"kind": "clock", "parameters": {"jumps": 1, "most_s": 9.0}},
        {"kind": "wrong decisions", "parameters": {"share": 0.5}},
    ]
    path.write_text(json.dumps(case))
    assert len(Case.read(path).faults) == 3
    change(case)
    path.write_text(json.dumps(case))
    with pytest.raises(InvalidFile) as found:
        Case.read(path)
    told = str(found.value)
    assert told.startswith(f"{path} is no case of a swarm: {mistake}")
    assert told.endswith("; name a file that sil swarm wrote")
