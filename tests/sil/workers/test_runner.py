"""The runner: each item once, stored as it ends, whatever becomes of workers and of the command itself."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sil.workers.execution import Execution
from sil.workers.executor import TRIES, Executor, Inline, Interrupted
from sil.workers.processes import Processes
from sil.workers.runner import ItemDied, Runner
from sil.workers.store import Store
from tests.sil.workers.cluster import Begin, Cluster
from tests.sil.workers.test_no_process_is_left import alive
from tests.sil.workers.works import (
    DeliberateError,
    DiesAlways,
    DiesOnce,
    Fails,
    Root,
    items_of,
    told,
    wait_for,
)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with Processes(2) as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "runs.db") as opened:
        yield opened


def roots(folder: Path, count: int, takes_s: float = 0.0) -> list[Root]:
    return [Root(number, folder, takes_s) for number in range(count)]


def begun(folder: Path) -> Counter[str]:
    return Counter(told(folder / "begun"))


def stored(path: Path) -> Counter[str]:
    """The keys in a file of kept runs, as another program sees them."""
    with sqlite3.connect(path) as connection:
        return Counter(key for (key,) in connection.execute("SELECT key FROM result"))


def test_results_keep_the_requested_order(executor: Executor, store: Store, tmp_path: Path) -> None:
    works = [Root(number, tmp_path, takes_s=0.4 if number == 0 else 0.0) for number in range(6)]
    results = Runner(executor, store).results(items_of(works))
    assert told(tmp_path / "ended").index("Root 0") > 0
    assert [result["root"] ** 2 for result in results] == pytest.approx(range(6))


def test_equal_items_run_once_and_share_their_result(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    results = Runner(executor, store).results(
        items_of([Root(4, tmp_path), Root(9, tmp_path), Root(4, tmp_path)])
    )
    assert [result["root"] for result in results] == [2.0, 3.0, 2.0]
    assert begun(tmp_path) == {"Root 4": 1, "Root 9": 1}


def test_stored_results_are_not_computed_again(executor: Executor, tmp_path: Path) -> None:
    done: list[int] = []

    def note(n: int, _total: int | None) -> None:
        done.append(n)

    with Store(tmp_path / "runs.db") as store:
        first = Runner(executor, store, note).results(items_of(roots(tmp_path, 5)))
    with Store(tmp_path / "runs.db") as store:
        runs = Runner(executor, store, note)
        assert repr(runs.results(items_of(roots(tmp_path, 5)))) == repr(first)
        assert done == [0, 1, 2, 3, 4, 5, 5]
        runs.results(items_of(roots(tmp_path, 7)))
    assert done[7:] == [10, 11, 12]
    assert begun(tmp_path) == {f"Root {number}": 1 for number in range(7)}


def test_a_worker_that_dies_loses_no_result(executor: Executor, store: Store, tmp_path: Path) -> None:
    works: list[Root] = [DiesOnce(100, tmp_path), *roots(tmp_path, 8, takes_s=0.05), DiesOnce(121, tmp_path)]
    results = Runner(executor, store).results(items_of(works))
    assert [results[0]["root"], results[-1]["root"]] == [10.0, 11.0]
    again = {"DiesOnce 100": 2, "DiesOnce 121": 2}
    assert begun(tmp_path) == {f"Root {number}": 1 for number in range(8)} | again
    assert stored(tmp_path / "runs.db") == {work.key: 1 for work in works}


def test_an_item_that_always_dies_is_named_and_finished_results_are_kept(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    works = [*roots(tmp_path, 4), DiesAlways(7, tmp_path)]
    with pytest.raises(ItemDied, match="DiesAlways 7: its process was killed from outside 3 times") as caught:
        Runner(executor, store).results(items_of(works))
    assert caught.value.name == "DiesAlways 7"
    assert begun(tmp_path)["DiesAlways 7"] == TRIES
    assert stored(tmp_path / "runs.db") == {work.key: 1 for work in works[:4]}


def test_an_exception_of_an_item_is_raised_and_the_workers_continue(
    executor: Executor, store: Store, tmp_path: Path
) -> None:
    runs = Runner(executor, store)
    with pytest.raises(DeliberateError, match="Fails 3"):
        runs.results(items_of([*roots(tmp_path, 3), Fails(3, tmp_path)]))
    assert len(runs.results(items_of(roots(tmp_path, 5)))) == 5


def test_ctrl_c_reports_how_many_runs_are_done(executor: Executor, store: Store, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="3 of 8 runs are done"):
        Runner(executor, store, interrupt, total=8).results(items_of(roots(tmp_path, 8)))
    assert sum(stored(tmp_path / "runs.db").values()) >= 3
    assert len(Runner(executor, store).results(items_of(roots(tmp_path, 8)))) == 8


def test_a_skipped_item_counts_as_done(store: Store, tmp_path: Path) -> None:
    found: list[str] = []
    items = items_of(roots(tmp_path, 6))
    runner = Runner(Inline(), store)
    runner.run(items, lambda item, _: found.append(item.key), skip=lambda item: len(found) in (2, 3))
    assert found == ["Root 0", "Root 1"]
    assert runner.done == 6


def quotient(of: int, by: int) -> tuple[int, int]:
    return divmod(of, by)


def test_map_returns_results_in_order_and_reuses_stored_ones(store: Store) -> None:
    assert Runner(Inline(), store).map(quotient, [2, 3], 10) == [(5, 0), (3, 1)]
    assert Runner(Inline(), store).map(quotient, [3, 4, 2], 0) == [(3, 1), (0, 0), (5, 0)]


def test_results_of_a_killed_command_are_not_computed_again(
    begin_command: Begin, executor: Executor, tmp_path: Path
) -> None:
    command = begin_command(tmp_path, 12, 0.2)
    wait_for(tmp_path / "ended", 4)
    started = {child.pid for child in psutil.Process(command.pid).children(recursive=True)}
    os.kill(command.pid, signal.SIGKILL)
    command.communicate()
    assert not alive(started)
    had = stored(tmp_path / "runs.db")
    assert 1 <= len(had) < 12
    before = begun(tmp_path)
    with Store(tmp_path / "runs.db") as store:
        Runner(executor, store).results(items_of(roots(tmp_path, 12)))
    assert begun(tmp_path) - before == {
        f"Root {number}": 1 for number in range(12) if f"Root {number}" not in had
    }
    assert stored(tmp_path / "runs.db") == {f"Root {number}": 1 for number in range(12)}


@pytest.mark.long
def test_a_killed_dask_worker_loses_no_result(
    executor: Executor, new_cluster: Cluster, tmp_path: Path
) -> None:
    new_cluster.begin_worker()
    victim = new_cluster.begin_worker("--no-nanny")
    folders = {where: tmp_path / where for where in ("dask", "processes", "this process")}
    for folder in folders.values():
        folder.mkdir()
    done: list[int] = []

    def kill_in_the_middle(count: int, _total: int | None) -> None:
        """When both workers are at work, which was begun just now."""
        done.append(count)
        if count == 4:
            deadline = time.monotonic() + 60.0
            while len(told(folders["dask"] / "begun")) != 2 + len(told(folders["dask"] / "ended")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            victim.kill()

    with Execution(dask=str(new_cluster.file)).executor() as far, Store(tmp_path / "dask.db") as store:
        works: list[Root] = [*roots(folders["dask"], 14, takes_s=0.3), DiesOnce(400, folders["dask"])]
        on_dask = Runner(far, store, kill_in_the_middle).results(items_of(works))
    assert victim.wait() == -signal.SIGKILL
    times = begun(folders["dask"])
    assert times["DiesOnce 400"] >= 2
    assert max(count for key, count in times.items() if key != "DiesOnce 400") == 2, "nothing was lost"
    assert done == list(range(16))
    assert stored(tmp_path / "dask.db") == {work.key: 1 for work in works}

    with Store(tmp_path / "processes.db") as store:
        works = [*roots(folders["processes"], 14), DiesOnce(400, folders["processes"])]
        in_processes = Runner(executor, store).results(items_of(works))
    in_this_process = [work() for work in roots(folders["this process"], 14)]
    assert repr(on_dask) == repr(in_processes)
    assert repr(on_dask[:14]) == repr(in_this_process)
