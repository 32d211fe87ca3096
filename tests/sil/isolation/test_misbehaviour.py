"""Schedulers that misbehave in every way that `tests.hostile` lists: each is named for what it did, no
other is affected, and nothing is left of them."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scheduler.registry import SchedulerNotLoaded, named
from scheduler.rules import (
    DETERMINISTIC,
    MAKES_PROGRESS,
    ONE_TASK_ON_EACH_NODE,
    PROBLEM_UNTOUCHED,
    RAISES_NOTHING,
    RETURNS_A_SCHEDULE,
    RETURNS_IN_TIME,
)
from sil.isolation.descriptions import described
from sil.outcome.replayed_log import ReplayedLog
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import TIMINGS, Fact
from sil.workers import own_process
from sil.workers.executor import FIRST, Attempt, tried
from sil.world.guard.faults import (
    CAN_BE_JUDGED,
    KEEPS_TO_MEMORY,
    KEEPS_TO_PROCESSES,
    KILLED,
    PROCESS_SURVIVES,
    TESTBED_UNTOUCHED,
    TRIES,
    Died,
)
from tests import hostile
from tests.sil.experiment.test_replay import FIVE, log_of
from tests.sil.isolation import own
from tests.sil.workers.test_no_process_is_left import alive

LIMIT_S = 0.5
SHORT = {
    "raises_with_a_long_text": RAISES_NOTHING,
    "exits_while_its_text_is_read": RAISES_NOTHING,
    "hangs_while_its_text_is_read": RETURNS_IN_TIME,
    "exits": PROCESS_SURVIVES,
    "reads_memory_that_is_not_there": PROCESS_SURVIVES,
    "closes_all_files": PROCESS_SURVIVES,
    "writes_into_all_files": RETURNS_A_SCHEDULE,
    "stops": RETURNS_IN_TIME,
    "loops_and_catches_everything": RETURNS_IN_TIME,
    "replaces_the_encoder": TESTBED_UNTOUCHED,
    "replaces_the_clock": TESTBED_UNTOUCHED,
    "forgets_all_jobs_and_replaces_the_rules": "no-job-forgotten",
    "raises_when_iterated": RAISES_NOTHING,
    "has_reasons_without_end": RETURNS_A_SCHEDULE,
    "completes_at_nan": "completion-as-expected",
    "names_a_huge_resource": "known-nodes",
    "names_resources_without_end": RETURNS_A_SCHEDULE,
    "raises_keyboard_interrupt": RAISES_NOTHING,
    "gets_sigint": RAISES_NOTHING,
    "raises_from_an_endless_file": RAISES_NOTHING,
    "raises_a_fault_of_its_own": RAISES_NOTHING,
    "raises_without_a_name": RAISES_NOTHING,
    "sends_numbers_that_are_none": RETURNS_A_SCHEDULE,
    "sends_texts_that_are_none": RETURNS_A_SCHEDULE,
    "has_starts_without_end": RETURNS_A_SCHEDULE,
    "completes_beyond_floats": RETURNS_A_SCHEDULE,
    "writes_through_an_address": PROBLEM_UNTOUCHED,
    "asks_again_when_it_likes": DETERMINISTIC,
    "is_ended_by_a_timer": PROCESS_SURVIVES,
    "exits_when_it_is_late": PROCESS_SURVIVES,
}
"""Of these, and of what they show: the rule that they break."""
REPLAY = Replay(log_of(FIVE, 3), decision_limit_s=LIMIT_S, engine=Engine.HARNESS)
PATIENT = replace(REPLAY, decision_limit_s=60.0)
"""For those that return: the computer may be busy."""


def slow_ones_later(name: str) -> object:
    """Processes that cannot be interrupted are waited for; one of them is enough for `make test`."""
    slow = ("stops", "hangs_while_its_text_is_read", "stops_its_parent")
    return pytest.param(name, marks=pytest.mark.long) if name in slow else name


def facts_under(name: str, folder: Path, replay: Replay = REPLAY) -> Any:
    return replay.facts(resolve(f"{hostile.__name__}:{name}"), folder / "printed")


@pytest.mark.parametrize("name", [slow_ones_later(name) for name in SHORT])
def test_its_fault_is_the_last_fact_and_names_the_rule(name: str, tmp_path: Path) -> None:
    *_, last = facts_under(name, tmp_path).to_dicts()
    assert (last["event"], last["detail"]) == (Fact.FAULT, SHORT[name]), last["message"]
    assert len(last["message"]) < 1_000


@pytest.mark.parametrize(
    "name", ["forks", "starts_a_daemon", "forks_into_its_own_group", slow_ones_later("stops_its_parent")]
)
def test_nothing_is_left_of_what_it_starts(name: str, tmp_path: Path) -> None:
    good = facts_under("Good", tmp_path, PATIENT).drop("scheduler")
    assert facts_under(name, tmp_path, PATIENT).drop("scheduler").equals(good)
    printed = (tmp_path / "printed").read_text().splitlines()
    started = {int(line.removeprefix("started ")) for line in printed}
    assert started
    assert not alive(started)


@pytest.mark.parametrize(
    "name", ["kills_itself", "kills_its_parent", "gets_sigquit", "is_killed_elsewhere_each_time"]
)
def test_who_is_killed_is_tried_again_and_blamed_if_it_is_at_the_same_decision_each_time(
    name: str, tmp_path: Path
) -> None:
    begun = []

    def run(attempt: Attempt) -> Any:
        begun.append(name)
        return REPLAY.facts(resolve(f"{hostile.__name__}:{name}"), tmp_path / "printed", attempt)

    found = tried(run)
    assert len(begun) == TRIES
    if name in hostile.KILLED:
        assert isinstance(found, Died)
        assert found.rule == KILLED
        assert "no scheduler is to blame" in str(found)
    else:
        *_, last = found.to_dicts()
        assert (last["event"], last["detail"]) == (Fact.FAULT, PROCESS_SURVIVES)
        assert "in each of 3 tries" in last["message"]
        assert last["time_s"] > 0.0


def test_processes_and_threads_are_limited(tmp_path: Path) -> None:
    *_, last = facts_under("starts_a_thousand_threads", tmp_path, PATIENT).to_dicts()
    # The system refuses further threads to an ordinary user, perhaps before the supervisor has looked.
    rules = {KEEPS_TO_PROCESSES} if os.getuid() == 0 else {KEEPS_TO_PROCESSES, RAISES_NOTHING}
    assert last["detail"] in rules


NEW = [
    "signals_its_parent",
    "freezes_the_time",
    "leaves_a_zombie_each_time",
    "has_a_collector_hook_that_raises",
    "sets_the_timer",
    "lowers_more_limits",
    "gives_up_its_rights",
]


@pytest.mark.parametrize(
    "name",
    [*NEW, *(pytest.param(name, marks=pytest.mark.long) for name in hostile.HARMLESS if name not in NEW)],
)
def test_what_it_does_to_its_own_process_changes_no_fact(name: str, tmp_path: Path) -> None:
    found, good = (facts_under(each, tmp_path, PATIENT).drop("scheduler") for each in (name, "Good"))
    assert found.equals(good)


class Interrupted:
    """The process that a supervisor has started may answer before the testbed goes on."""

    def start(self, *given: Any) -> None:
        self.answers_s = time.monotonic()


def test_no_answer_comes_before_its_process_has_begun() -> None:
    supervisor: Any = Interrupted()
    memory: Any = None
    process = own_process.OwnProcess(supervisor, memory, None, None, FIRST)
    assert process.began_s <= supervisor.answers_s


LONG_JOBS = Replay(
    log_of([(1, 0.0, 30_000.0, 2, 30_000.0, 1), (2, 1.0, 30_000.0, 2, 30_000.0, 1)], 3),
    engine=Engine.HARNESS,
    determinism_check=False,
)


def test_a_set_that_has_no_nodes_is_a_fault_of_the_answer(tmp_path: Path) -> None:
    """It says that it has some, so it is no set that the testbed makes."""
    *_, last = REPLAY.facts(resolve(f"{own.__name__}:StartsOnSetsWithoutNodes"), tmp_path).to_dicts()
    assert last["detail"] == ONE_TASK_ON_EACH_NODE, last["message"]


def test_rounds_while_nothing_happens_end_if_they_are_too_close(tmp_path: Path) -> None:
    *_, last = facts_under("asks_again_each_millisecond", tmp_path, LONG_JOBS).to_dicts()
    assert last["detail"] == MAKES_PROGRESS
    assert last["time_s"] < 20.0


@pytest.mark.long
def test_a_round_each_second_of_a_day_is_no_endless_loop(tmp_path: Path) -> None:
    assert Fact.FAULT not in facts_under("asks_again_each_second", tmp_path, LONG_JOBS)["event"].to_list()


def test_decisions_are_timed_by_a_clock_that_libraries_cannot_freeze(tmp_path: Path) -> None:
    REPLAY.run(resolve(f"{hostile.__name__}:freezes_the_time"), tmp_path)
    assert (pl.read_parquet(tmp_path / TIMINGS)["wall_s"] > 0.0).all()


HUNGRY = """
import mmap, os, time
from scheduler.free_nodes.rigid import Rigid

class Itself(Rigid):
    def schedule(self, problem):
        self.kept = bytearray(300 * 2**20)
        return super().schedule(problem)

class Shared(Rigid):
    def schedule(self, problem):
        if not hasattr(self, "kept"):
            self.kept = [mmap.mmap(-1, 40 * 2**20) for _ in range(8)]
            for memory in self.kept:
                memory.write(bytes(len(memory)))
            time.sleep(1.0)
        return super().schedule(problem)

class Children(Rigid):
    def schedule(self, problem):
        for _ in range(4):
            if os.fork() == 0:
                kept = b"x" * (80 * 2**20)
                time.sleep(600)
        time.sleep(1.5)
        return super().schedule(problem)
"""


@pytest.mark.parametrize("kind", ["Itself", "Shared", "Children"])
def test_a_memory_limit_has_its_own_rule(kind: str, importable: Path) -> None:
    (importable / "hungry.py").write_text(HUNGRY)
    limits = {100.0: KEEPS_TO_MEMORY, 1_000.0: None}
    for most_mb, rule in limits.items():
        replay = Replay(REPLAY.log, engine=Engine.HARNESS, memory_limit_mb=most_mb, determinism_check=False)
        if rule is None and kind == "Children":
            break
        *_, last = replay.facts(resolve(f"hungry:{kind}"), importable / "printed").to_dicts()
        assert last["detail"] == rule, last["message"]
        assert rule is None or "more than the 100 MB that " in last["message"]


@pytest.mark.parametrize("most", [1e300, inf])
def test_a_limit_beyond_what_a_clock_or_a_computer_has_is_none(most: float, tmp_path: Path) -> None:
    replay = replace(REPLAY, decision_limit_s=most, memory_limit_mb=most)
    assert Fact.FAULT not in facts_under("Good", tmp_path, replay)["event"].to_list()


def test_what_the_testbed_cannot_judge_ends_the_run_that_it_judges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise TypeError("no table has this")

    monkeypatch.setattr(ReplayedLog, "end", fails)
    died = tried(lambda _: REPLAY.results(resolve(f"{hostile.__name__}:Good"), tmp_path / "printed"))
    assert isinstance(died, Died)
    assert died.rule == CAN_BE_JUDGED
    assert "TypeError: no table has this (test_misbehaviour.py" in str(died)
    with pytest.raises(TypeError):
        REPLAY.results(resolve("fcfs"), tmp_path / "printed")


WHEN_IMPORTED = {
    "sleeps": ("import time\ntime.sleep(600)", "not imported and made within 0.5 s"),
    "exits": ("import os\nos._exit(4)", "its process ended with exit code 4"),
    "raises": ("raise BaseException('no')", "BaseException: no"),
    "interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "kills": (
        "import os, time\nos.kill(os.getppid(), 9)\ntime.sleep(600)",
        "before its first answer, in each of 3 tries",
    ),
    "spoils": ("import sys\nsys.modules['json'] = None\nimport json", "import of json halted"),
    "is no module": ("def (", "SyntaxError"),
    "kind raises": (
        "class S:\n @property\n def kind(self): raise OSError('no kind')\n def schedule(self, p): pass",
        "OSError: no kind",
    ),
    "kind is odd": ("class S:\n kind = object()\n def schedule(self, p): pass", "declares kind ="),
    "flag raises": (
        "class M(type):\n @property\n def is_random(cls): raise OSError('no flag')\n"
        "class S(metaclass=M): pass",
        "OSError: no flag",
    ),
    "making exits": ("class S:\n def __init__(self): __import__('os')._exit(3)", "exit code 3"),
    "making loops": ("class S:\n def __init__(self):\n  while True: pass", "within 0.5 s"),
    "no schedule": ("class S: pass", "has no method schedule(problem)"),
    "text is endless": (
        "class E(Exception):\n def __str__(self):\n  while True: pass\nraise E",
        "within 0.5 s",
    ),
}


@pytest.mark.parametrize("kind", WHEN_IMPORTED)
def test_to_import_and_make_one_is_done_in_its_process_and_in_time(kind: str, importable: Path) -> None:
    code, told = WHEN_IMPORTED[kind]
    module = f"imported_{kind.replace(' ', '_')}"
    (importable / f"{module}.py").write_text(code + "\n")
    with pytest.raises(SchedulerNotLoaded) as refused:
        described(named(f"{module}:S"), limit_s=0.5)
    assert told in str(refused.value)
    assert module not in sys.modules


COUNTS = """
from scheduler.free_nodes.rigid import Rigid
made = 0

class Counts(Rigid):
    def __init__(self):
        global made
        made += 1
        if made > 1:
            raise RuntimeError("only one")
        super().__init__()
"""


def test_an_instance_that_cannot_be_made_again_is_the_fault_of_its_scheduler(importable: Path) -> None:
    (importable / "counts.py").write_text(COUNTS)
    *_, last = REPLAY.facts(resolve("counts:Counts"), importable / "printed").to_dicts()
    assert last["detail"] == RAISES_NOTHING
    assert "Counts() raised RuntimeError: only one" in last["message"]
