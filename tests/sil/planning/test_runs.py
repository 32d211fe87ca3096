"""Runs: each once, kept as it ends, whatever becomes of workers and of the command itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import psutil
import pytest

from sil.planning.runs import MOST_TIMES_AGAIN, RunDied, Runs
from sil.workers.engine import Engine
from sil.workers.port import Workers
from site_db.kept_runs import KeptRuns
from tests.sil.planning.cluster import Begin, Cluster
from tests.sil.planning.works import DiesAlways, DiesOnce, Fails, Root, Unlucky, told, wait_for
from tests.sil.test_no_process_is_left import alive


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Engine(2).opened() as opened:
        yield opened


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptRuns]:
    with KeptRuns(tmp_path / "kept.db") as opened:
        yield opened


def roots(folder: Path, count: int, takes_s: float = 0.0) -> list[Root]:
    return [Root(number, folder, takes_s) for number in range(count)]


def begun(folder: Path) -> Counter[str]:
    return Counter(told(folder / "begun"))


def stored(path: Path) -> Counter[str]:
    """The keys in a file of kept runs, as another program sees them."""
    with sqlite3.connect(path) as connection:
        return Counter(key for (key,) in connection.execute("SELECT key FROM kept_run"))


def test_results_come_in_the_order_that_was_asked_for(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    works = [Root(number, tmp_path, takes_s=0.4 if number == 0 else 0.0) for number in range(6)]
    results = Runs(workers, kept).results(works)
    assert told(tmp_path / "ended").index("Root 0") > 0
    assert [result["root"] ** 2 for result in results] == pytest.approx(range(6))


def test_equal_work_is_done_once_and_its_result_stands_in_all_its_places(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    results = Runs(workers, kept).results([Root(4, tmp_path), Root(9, tmp_path), Root(4, tmp_path)])
    assert [result["root"] for result in results] == [2.0, 3.0, 2.0]
    assert begun(tmp_path) == {"Root 4": 1, "Root 9": 1}


def test_what_is_kept_is_not_done_again(workers: Workers, tmp_path: Path) -> None:
    done: list[int] = []
    with KeptRuns(tmp_path / "kept.db") as kept:
        first = Runs(workers, kept, done.append).results(roots(tmp_path, 5))
    with KeptRuns(tmp_path / "kept.db") as kept:
        runs = Runs(workers, kept, done.append)
        assert repr(runs.results(roots(tmp_path, 5))) == repr(first)
        assert done == [1, 2, 3, 4, 5]
        runs.results(roots(tmp_path, 7))
    assert done == [1, 2, 3, 4, 5, 1, 2]
    assert begun(tmp_path) == {f"Root {number}": 1 for number in range(7)}


def test_a_worker_that_dies_loses_nothing_and_disturbs_nobody(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    works: list[Root] = [DiesOnce(100, tmp_path), *roots(tmp_path, 8, takes_s=0.05), DiesOnce(121, tmp_path)]
    results = Runs(workers, kept).results(works)
    assert [results[0]["root"], results[-1]["root"]] == [10.0, 11.0]
    again = {"DiesOnce 100": 2, "DiesOnce 121": 2}
    assert begun(tmp_path) == {f"Root {number}": 1 for number in range(8)} | again
    assert stored(tmp_path / "kept.db") == {work.key: 1 for work in works}


def test_work_that_dies_each_time_is_named_and_what_ended_is_kept(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    works = [*roots(tmp_path, 4), DiesAlways(7, tmp_path)]
    with pytest.raises(RunDied, match="run DiesAlways 7: its process died") as told_so:
        Runs(workers, kept).results(works)
    assert told_so.value.key == "DiesAlways 7"
    assert begun(tmp_path)["DiesAlways 7"] == 1 + MOST_TIMES_AGAIN
    assert stored(tmp_path / "kept.db") == {work.key: 1 for work in works[:4]}


def test_what_the_work_raises_is_raised_and_the_workers_go_on(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    runs = Runs(workers, kept)
    with pytest.raises(Unlucky, match="Fails 3"):
        runs.results([*roots(tmp_path, 3), Fails(3, tmp_path)])
    assert len(runs.results(roots(tmp_path, 5))) == 5


class Counted:
    """Workers, with a count of what is under way."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._under_way = 0
        self.most = 0

    @property
    def at_once(self) -> int:
        return self._workers.at_once

    def submit(self, work: Callable[[], Any]) -> Future[Any]:
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        return self._workers.submit(work)

    def outcome(self, future: Future[Any]) -> Any:
        self._under_way -= 1
        return self._workers.outcome(future)


def test_only_so_much_is_under_way_that_no_worker_waits(
    workers: Workers, kept: KeptRuns, tmp_path: Path
) -> None:
    counted = Counted(workers)
    Runs(counted, kept).results(roots(tmp_path, 20))
    assert counted.most == workers.at_once == 4


def test_what_a_command_did_that_was_killed_is_not_done_again(
    begin_command: Begin, workers: Workers, tmp_path: Path
) -> None:
    command = begin_command(tmp_path, 12, 0.2)
    wait_for(tmp_path / "ended", 4)
    started = {child.pid for child in psutil.Process(command.pid).children(recursive=True)}
    os.kill(command.pid, signal.SIGKILL)
    command.communicate()
    assert not alive(started)
    had = stored(tmp_path / "kept.db")
    assert 1 <= len(had) < 12
    before = begun(tmp_path)
    with KeptRuns(tmp_path / "kept.db") as kept:
        Runs(workers, kept).results(roots(tmp_path, 12))
    assert begun(tmp_path) - before == {
        f"Root {number}": 1 for number in range(12) if f"Root {number}" not in had
    }
    assert stored(tmp_path / "kept.db") == {f"Root {number}": 1 for number in range(12)}


def test_a_worker_of_dasks_that_is_killed_loses_nothing(
    workers: Workers, new_cluster: Cluster, tmp_path: Path
) -> None:
    new_cluster.begin_worker()
    victim = new_cluster.begin_worker("--no-nanny")
    folders = {where: tmp_path / where for where in ("dask", "processes", "this process")}
    for folder in folders.values():
        folder.mkdir()
    done: list[int] = []

    def kill_in_the_middle(count: int) -> None:
        """When both workers are at work, which was begun just now."""
        done.append(count)
        if count == 4:
            deadline = time.monotonic() + 60.0
            while len(told(folders["dask"] / "begun")) != 2 + len(told(folders["dask"] / "ended")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            victim.kill()

    with Engine(dask=str(new_cluster.file)).opened() as far, KeptRuns(tmp_path / "dask.db") as kept:
        works: list[Root] = [*roots(folders["dask"], 14, takes_s=0.3), DiesOnce(400, folders["dask"])]
        on_dask = Runs(far, kept, kill_in_the_middle).results(works)
    assert victim.wait() == -signal.SIGKILL
    times = begun(folders["dask"])
    assert times["DiesOnce 400"] >= 2
    assert max(count for key, count in times.items() if key != "DiesOnce 400") == 2, "nothing was lost"
    assert done == list(range(1, 16))
    assert stored(tmp_path / "dask.db") == {work.key: 1 for work in works}

    with KeptRuns(tmp_path / "processes.db") as kept:
        works = [*roots(folders["processes"], 14), DiesOnce(400, folders["processes"])]
        in_processes = Runs(workers, kept).results(works)
    in_this_process = [work() for work in roots(folders["this process"], 14)]
    assert repr(on_dask) == repr(in_processes)
    assert repr(on_dask[:14]) == repr(in_this_process)
