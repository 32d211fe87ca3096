"""What a scheduler may do in its process: everything that a program may."""

from __future__ import annotations

from pathlib import Path

import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.workers.executor import Listener
from sil.workers.processes import Processes
from tests.sil.experiment.replaying import replay_all
from tests.sil.experiment.test_replay import FIVE, log_of

LEGITIMATE = """
import atexit, os, threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
import multiprocessing as mp
from multiprocessing.shared_memory import SharedMemory
from scheduler.free_nodes.rigid import Rigid

HERE = Path(__file__).parent

class Pool(Rigid):
    def schedule(self, problem):
        with mp.Pool(1) as pool:
            assert pool.map(abs, [-1]) == [1]
        return super().schedule(problem)

class NewProcess(Rigid):
    def schedule(self, problem):
        if not hasattr(self, "asked"):
            with ProcessPoolExecutor(1, mp_context=mp.get_context("spawn")) as pool:
                self.asked = list(pool.map(abs, [-1]))
        return super().schedule(problem)

class Memory(Rigid):
    def schedule(self, problem):
        memory = SharedMemory(create=True, size=64)
        memory.close()
        memory.unlink()
        return super().schedule(problem)

class InAThread(Rigid):
    def schedule(self, problem):
        found = []
        thread = threading.Thread(target=lambda: found.append(Rigid.schedule(self, problem)))
        thread.start()
        thread.join()
        return found[0]

class Writes(Rigid):
    def __init__(self):
        super().__init__()
        self.file = (HERE / "written").open("w")
        atexit.register((HERE / "exited").touch)
    def schedule(self, problem):
        self.file.write(os.environ["OF_THE_USER"])
        return super().schedule(problem)
"""
KINDS = ("Pool", "Memory", "InAThread", pytest.param("NewProcess", marks=pytest.mark.long))


@pytest.fixture
def module(importable: Path) -> str:
    name = f"legitimate_{importable.name}"
    (importable / f"{name}.py").write_text(LEGITIMATE)
    return name


@pytest.mark.parametrize("kind", KINDS)
def test_threads_and_processes_of_a_scheduler_work(kind: str, module: str, tmp_path: Path) -> None:
    replay = Replay(log_of(FIVE, 3), engine=Engine.HARNESS)
    found = [replay.facts(resolve(name), tmp_path / "log") for name in ("fcfs", f"{module}:{kind}")]
    good, of_kind = (facts.drop("scheduler") for facts in found)
    assert of_kind.equals(good), of_kind[-1].to_dicts()


def test_they_work_in_workers_too(module: str, tmp_path: Path) -> None:
    names = [f"{module}:{kind}" for kind in ("Pool", "Memory")]
    with Processes(1) as executor:
        outcomes = replay_all(Replay(log_of(FIVE, 3)), names, tmp_path / "out", executor, False, Listener())
    assert [outcome.fault for outcome in outcomes] == [None, None]


def test_what_it_writes_is_complete_and_its_exit_handlers_are_called(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_USER", "yes")
    replay = Replay(log_of(FIVE, 3), engine=Engine.HARNESS, determinism_check=False)
    replay.facts(resolve(f"{module}:Writes"), tmp_path / "log")
    assert (tmp_path / "written").read_text().startswith("yes")
    assert (tmp_path / "exited").exists()
