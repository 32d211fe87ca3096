"""Executors: the same results on each, and one sentence where one cannot be used."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

from scheduler import UserError
from sil.workers.execution import Execution
from sil.workers.executor import Executor, Inline, Item
from sil.workers.own_process import own_process
from sil.workers.processes import Processes
from sil.workers.runner import Runner
from sil.workers.store import MISSING, Store
from sil.world.guard.faults import TRIES, Died
from tests.commands import in_a_process
from tests.sil.experiment.test_experiment import ROOT
from tests.sil.workers.cluster import Begin, Cluster
from tests.sil.workers.test_no_process_is_left import alive
from tests.sil.workers.works import (
    Circumstances,
    DiesAlways,
    Exits,
    NeverReturns,
    Pickled,
    Root,
    items_of,
    told,
    told_by,
    wait_for,
    write_files,
)

needs_dask = pytest.mark.skipif(
    find_spec("distributed") is None, reason="there is no Dask here: pip install 'sil-testbed[distributed]'"
)


def sentence_of(dask: object) -> str:
    """Why Dask cannot be used."""
    with pytest.raises(UserError) as error, Execution(dask=str(dask)).executor():
        pass
    sentence = str(error.value)
    assert "\n" not in sentence
    return sentence


def run_on(executor: Executor, work: Root) -> Any:
    results: list[Any] = []
    executor.run([Item(work.key, work)], lambda _, value: results.append(value))
    (result,) = results
    return result


def test_a_run_has_the_same_environment_in_a_process_and_on_a_dask_worker(
    cluster: Cluster, tmp_path: Path
) -> None:
    work = Circumstances(1, tmp_path)
    with Processes(1) as executor:
        here = run_on(executor, work)
    with Execution(dask=str(cluster.file)).executor() as executor:
        there = run_on(executor, work)
    assert here == there
    assert here["in_main_thread"]  # else there is no time limit for decisions


def test_results_and_files_are_byte_identical_on_every_executor(cluster: Cluster, tmp_path: Path) -> None:
    items = items_of([Root(number, tmp_path) for number in range(20)])
    in_this_process = repr([item() for item in items])
    executors = [Inline(), Processes(1), Processes(3), Execution(dask=str(cluster.file)).executor()]
    for number, executor in enumerate(executors):
        folder = tmp_path / str(number) / "out"
        with executor, Store(tmp_path / f"{number}.db") as store:
            runner = Runner(executor, store)
            assert repr(runner.results(items)) == in_this_process
            runner.results([Item("writes", write_files, folder)])
        assert (folder / "within" / "file").read_text() == "written"


def test_what_the_items_have_in_common_is_pickled_once_and_gets_to_each_worker() -> None:
    common, other, found = Pickled(), Pickled(), dict[str, Any]()
    items = [Item(str(n), partial(told_by, common, other if 2 <= n < 6 else None, n)) for n in range(9)]
    items.insert(4, Item("dies", partial(os._exit, 1)))
    with Processes(2) as executor:
        executor.run(items, lambda item, value: found.update({item.key: value}))
    assert isinstance(found.pop("dies"), Died)
    here = os.getpid()
    assert found == {str(n): (here, here if 2 <= n < 6 else None, n) for n in range(9)}
    assert common.times <= 4
    assert other.times <= 4


def test_a_killed_process_is_retried_but_one_that_exits_is_not(tmp_path: Path) -> None:
    with Processes(1) as executor:
        assert isinstance(run_on(executor, DiesAlways(1, tmp_path)), Died)
        assert isinstance(run_on(executor, Exits(2, tmp_path)), Died)
        assert isinstance(run_on(executor, NeverReturns(3, tmp_path)), Died)
        assert run_on(executor, Root(4, tmp_path))["root"] == 2.0
    expected = ["DiesAlways 1"] * TRIES + ["Exits 2", "NeverReturns 3", "Root 4"]
    assert told(tmp_path / "begun") == expected


def test_killing_an_idle_worker_has_no_effect() -> None:
    pids: list[int] = []
    with Processes(1) as executor:
        for _ in range(3):
            executor.run([Item("pid", os.getpid)], lambda _, pid: pids.append(pid))
            os.kill(pids[-1], signal.SIGKILL)
    assert len(set(pids)) == 3


def test_a_closed_executor_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    children = set(psutil.Process().children(recursive=True))
    before = cluster.processes()
    for executor in (Processes(2), Execution(dask=str(cluster.file)).executor()):
        with executor:
            run_on(executor, Root(1, tmp_path))
            now = {child.pid for child in set(psutil.Process().children(recursive=True)) - children}
            there = cluster.processes() - before
        assert not alive({pid for pid in now | there if not is_kept(pid)})


def is_kept(pid: int) -> bool:
    """Whether it is a server that forks processes, or a supervisor that a nursery has forked, which waits for
    the next run: these are kept until the process that has them ends."""
    try:
        process = psutil.Process(pid)
        is_of_nursery = "sil.workers.nursery" in process.cmdline()[-1]
        above = process.parents()[: 1 + is_of_nursery]
        return any(each.cmdline() != process.cmdline() for each in above)
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_ends_current_runs_and_keeps_stored_results(begin_command: Begin, tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        store.put("Root 0", {})
    process = begin_command(tmp_path, 100, 600.0)
    wait_for(tmp_path / "begun", 2)
    started = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
    began_s = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    printed, complaints = process.communicate(timeout=60.0)
    assert (printed, complaints) == ("interrupted: 1 of 100 runs are done\n", "")
    assert time.monotonic() - began_s < 30.0
    assert started
    assert not alive(started)
    assert told(tmp_path / "begun") in (["Root 1", "Root 2"], ["Root 2", "Root 1"])
    with Store(tmp_path / "runs.db") as store:
        assert [n for n in range(100) if store.get(f"Root {n}") is not MISSING] == [0]


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sil.workers.dask_executor", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    sentence = sentence_of("tcp://127.0.0.1:8786")
    assert sentence == "--dask needs the package distributed; install this one with [distributed]"


@needs_dask
def test_a_missing_or_invalid_scheduler_file_is_reported(tmp_path: Path) -> None:
    assert "missing.json: there is no such scheduler file" in sentence_of(tmp_path / "missing.json")
    for content in ("", "no json", "[]", "{}", '{"address": 3}', "[" * 100_000):
        (tmp_path / "other").write_text(content)
        assert sentence_of(tmp_path / "other").endswith("other: this is not a scheduler file written by Dask")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert "this is not a scheduler file written by Dask" in sentence_of(tmp_path / "bytes")
    assert f"{tmp_path}: there is no such scheduler file" in sentence_of(tmp_path)


@needs_dask
def test_an_unreachable_dask_scheduler_is_reported_soon_and_without_other_output(
    begin_command: Begin, tmp_path: Path
) -> None:
    began_s = time.monotonic()
    command = begin_command(tmp_path, 1, 0.0, "tcp://127.0.0.1:1")
    printed, complaints = command.communicate(timeout=60.0)
    assert (printed, complaints) == ("no Dask scheduler answers at tcp://127.0.0.1:1\n", "")
    assert time.monotonic() - began_s < 30.0  # of which the limit is 5 s, on a machine that may be slow
    assert not told(tmp_path / "begun")


@contextmanager
def listening(answer: bytes) -> Iterator[str]:
    """Something that takes connections and is no Dask scheduler: says `answer` to all."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connections.append(connection)
                if answer:
                    connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for connection in connections:
            connection.close()


@needs_dask
@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_listener_that_is_not_a_dask_scheduler_is_reported(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.workers.dask_executor.ANSWER_WITHIN_S", 1.0)
    with listening(answer) as address:
        began_s = time.monotonic()
        assert sentence_of(address) == f"no Dask scheduler answers at {address}"
        assert time.monotonic() - began_s < 20.0


@needs_dask
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:port", "nothing://127.0.0.1:1"])
def test_an_invalid_address_is_reported(address: str) -> None:
    assert sentence_of(address) == f"no Dask scheduler answers at {address}"


def test_a_cluster_without_workers_or_with_incompatible_ones_is_reported(
    new_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("sil.workers.dask_executor.WORKER_WITHIN_S", 0.5)
        assert "has no workers; start some with: dask worker tcp://" in sentence_of(new_cluster.file)
    monkeypatch.setattr("sil.workers.dask_executor.WORKER_WITHIN_S", 60.0)
    (tmp_path / "sil").mkdir()
    (tmp_path / "sil" / "__init__.py").touch()
    new_cluster.begin_worker("--no-nanny", python_path=str(tmp_path))
    sentence = sentence_of(new_cluster.file)
    assert "cannot run this version of sil" in sentence
    assert "No module named 'sil.workers'" in sentence


def test_workers_with_other_code_are_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import sil.workers.dask_executor  # noqa: F401 (only now: there may be no Dask)

    monkeypatch.setattr("sil.workers.dask_executor.code_and_data", lambda: "other code")
    assert "has another version of sil or of its libraries" in sentence_of(cluster.file)


@pytest.mark.long
def test_a_dask_scheduler_that_disappears_is_reported_and_finished_runs_are_kept(
    begin_command: Begin, new_cluster: Cluster, tmp_path: Path
) -> None:
    new_cluster.begin_worker("--no-nanny")
    command = begin_command(tmp_path, 100, 0.3, new_cluster.file)
    wait_for(tmp_path / "ended", 3)
    new_cluster.scheduler.kill()
    printed, complaints = command.communicate(timeout=60.0)
    assert printed.startswith("the Dask scheduler at tcp://")
    assert printed.endswith("is gone; start it and run the same command again to resume\n")
    assert complaints == ""
    with Store(tmp_path / "runs.db") as store:
        assert 2 <= sum(store.get(f"Root {number}") is not MISSING for number in range(100)) < 100


def _wait(connection: socket.socket) -> None:
    connection.recv(1)


def test_a_process_that_is_closed_twice_gives_its_supervisor_to_one_other() -> None:
    first = own_process(_wait)
    first.close()
    second = own_process(_wait)
    first.close()
    third = own_process(_wait)
    assert second.how_it_ended() is None
    assert third.supervisor is not second.supervisor
    for process in (second, third):
        process.close()


def test_all_processes_of_a_command_have_its_nice_value() -> None:
    program = (
        "import os\n"
        "from sil.workers.own_process import own_process\n"
        "from tests.sil.workers.works import tell_nice_value\n"
        "with own_process(tell_nice_value) as process: print(os.read(process.fileno(), 9).decode())\n"
    )
    told = in_a_process("nice", "-n", "7", sys.executable, "-c", program, timeout=60)
    expected = os.getpriority(os.PRIO_PROCESS, 0) + 7
    assert told.stdout == f"{expected}\n", told.stderr


def test_no_lock_is_held_in_a_process_by_a_thread_that_it_lacks() -> None:
    """Polars starts one when it is imported, and a fork at that moment would wait for it forever."""
    module = "tests.sil.workers.starts_a_thread"
    with own_process(partial(_use, module), modules=(module,)) as process:
        assert os.read(process.fileno(), 1) == b"y"


def _use(module: str, connection: socket.socket) -> None:
    import_module(module).use(connection)


def test_a_command_ends_though_a_scheduler_has_stopped_its_nursery() -> None:
    program = (
        "import os, signal, psutil\n"
        "from sil.workers import nursery\n"
        "from sil.workers.executor import Item\n"
        "from sil.workers.processes import Processes\n"
        "nursery.ENDS_WITHIN_S = 0.2\n"
        "with Processes(1) as executor:\n"
        "    executor.run([Item('pid', os.getpid)], lambda _, pid: None)\n"
        "(found,) = psutil.Process().children()\n"
        "found.send_signal(signal.SIGSTOP)\n"
        "print(found.pid)\n"
    )
    done = in_a_process(sys.executable, "-c", program, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not alive({int(done.stdout)})
