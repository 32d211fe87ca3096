"""What authors of plug-ins see: their own line, tracebacks, random schedulers, and all mistakes at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sil.world import SHOW_TRACEBACKS
from tests.builders import tiny_experiment
from tests.commands import sil

pytestmark = pytest.mark.usefixtures("in_this_process")

OWN = """
import numpy as np
from scheduler.free_nodes.rigid import Rigid


class Fails:
    kind = "free-nodes"

    def schedule(self, problem):
        return np.zeros(0).argmin()  # the author's line


class Declared:
    kind = "free-nodes"
    is_random = True

    def __init__(self, seed):
        self.luck = np.random.default_rng(seed)
        self.rigid = {True: Rigid("fcfs"), False: Rigid("sjf")}

    def schedule(self, problem):
        return self.rigid[bool(self.luck.random() < 0.5)].schedule(problem)


class Undeclared(Declared):
    is_random = False

    def __init__(self):
        super().__init__(None)


class Maps:
    kind = "mapping"

    def schedule(self, problem):
        raise AssertionError("never called")
"""


@pytest.fixture
def log(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log in which the order of the queue matters."""
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv(SHOW_TRACEBACKS, "")
    (here / "usable_schedulers.py").write_text(OWN)
    jobs = [
        f"{i + 1} {i} -1 {10 + 37 * i % 50} 2 -1 -1 2 {60 + 13 * i % 70} -1 1 1 1 -1 -1 -1 -1 -1"
        for i in range(40)
    ]
    path = here / "small.swf"
    path.write_text("; MaxProcs: 3\n" + "\n".join(jobs) + "\n")
    return path


def replay(log: Path, name: str, *options: str) -> tuple[int, str, str]:
    done = sil("replay", str(log), "--scheduler", f"usable_schedulers:{name}", "--no-report", *options)
    table = Path("sil-small") / f"usable_schedulers:{name}" / "jobs.csv"
    found = next(Path("sil-small").glob("*/jobs.csv"), table)
    return done.exit_code, " ".join(done.stderr.split()), found.read_text() if found.is_file() else ""


def test_a_fault_shows_the_failing_line_of_the_custom_scheduler(log: Path) -> None:
    code, errors, _ = replay(log, "Fails")
    assert code == 1
    assert "(usable_schedulers.py:10: return np.zeros(0).argmin() # the author's line)" in errors


def test_a_declared_random_scheduler_gets_a_seed_and_is_repeatable(log: Path) -> None:
    first, second, other = (replay(log, "Declared", "--seed", seed) for seed in ("1", "1", "2"))
    assert [code for code, _, _ in (first, second, other)] == [0, 0, 0]
    assert first[2] == second[2] != other[2]


def test_an_undeclared_random_scheduler_runs_without_the_determinism_check(log: Path) -> None:
    code, errors, _ = replay(log, "Undeclared")
    assert code == 1
    assert "two instances decided differently" in errors
    assert replay(log, "Undeclared", "--no-determinism-check")[0] == 0


def test_a_scheduler_of_another_kind_is_rejected_before_anything_runs(log: Path) -> None:
    code, errors, _ = replay(log, "Maps")
    assert code == 2
    assert "kind mapping" in errors
    assert "kind free-nodes" in errors


def test_all_errors_of_an_experiment_file_are_reported_with_their_lines(tmp_path: Path) -> None:
    more = '\n[[outages]]\nmachine = "nowhere"\nfrom_s = 0\nto_s = 1\n'
    path = tiny_experiment(tmp_path, more, schedulers=json.dumps(["mct", "no_such_one", "easy"]))
    done = sil("run", str(path), "--out", str(tmp_path / "out"))
    errors = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert errors.count("tiny-experiment") + errors.count(", line ") >= 3
    for sentence in ("unknown scheduler 'no_such_one'", "kind free-nodes", "has no machine 'nowhere'"):
        assert sentence in errors
