"""Engines: the same on each, and one sentence where there is none."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

import psutil
import pytest

from sil.planning.runs import Runs
from sil.workers.engine import Engine, NoEngine
from sil.workers.port import Workers, finished
from site_db.kept_runs import KeptRuns
from tests.sil.planning.cluster import Begin, Cluster
from tests.sil.planning.works import Circumstances, Root, told, wait_for
from tests.sil.test_no_process_is_left import alive

needs_dask = pytest.mark.skipif(
    find_spec("distributed") is None, reason="there is no Dask here: pip install 'sil-testbed[distributed]'"
)


def sentence_of(engine: Engine) -> str:
    """Why an engine cannot be opened."""
    with pytest.raises(NoEngine) as told_so, engine.opened():
        pass
    sentence = str(told_so.value)
    assert "\n" not in sentence
    return sentence


def run_on(workers: Workers, work: Root) -> dict[str, float]:
    future = workers.submit(work)
    finished([future])
    return workers.outcome(future)


def test_a_run_meets_the_same_circumstances_here_and_on_a_worker_of_dasks(
    cluster: Cluster, tmp_path: Path
) -> None:
    work = Circumstances(1, tmp_path)
    with Engine(workers=1).opened() as workers:
        here = run_on(workers, work)
    with Engine(dask=str(cluster.file)).opened() as workers:
        there = run_on(workers, work)
    assert here == there
    assert here["in_main_thread"]  # else there is no time limit for decisions


def test_results_are_the_same_bytes_on_every_engine(cluster: Cluster, tmp_path: Path) -> None:
    works = [Root(number, tmp_path) for number in range(20)]
    in_this_process = repr([work() for work in works])
    for number, engine in enumerate([Engine(1), Engine(3), Engine(dask=str(cluster.file))]):
        with engine.opened() as workers, KeptRuns(tmp_path / f"{number}.db") as kept:
            assert repr(Runs(workers, kept).results(works)) == in_this_process


def test_no_process_is_left_behind_by_an_engine_that_is_closed(cluster: Cluster, tmp_path: Path) -> None:
    children = set(psutil.Process().children(recursive=True))
    before = cluster.processes()
    for engine in (Engine(2), Engine(dask=str(cluster.file))):
        with engine.opened() as workers:
            run_on(workers, Root(1, tmp_path))
            now = {child.pid for child in set(psutil.Process().children(recursive=True)) - children}
            there = cluster.processes() - before
        # The servers that fork them are kept until the process that has them ends.
        assert not alive({pid for pid in now | there if not is_server(pid)})


def is_server(pid: int) -> bool:
    try:
        process = psutil.Process(pid)
        parent = process.parent()
        return parent is None or process.cmdline() != parent.cmdline()
    except psutil.NoSuchProcess:
        return False


def test_ctrl_c_ends_the_runs_that_are_under_way_and_leaves_what_is_kept(
    begin_command: Begin, tmp_path: Path
) -> None:
    with KeptRuns(tmp_path / "kept.db") as kept:
        kept.put("Root 0", {})
    process = begin_command(tmp_path, 100, 600.0)
    wait_for(tmp_path / "begun", 2)
    started = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
    began_s = time.monotonic()
    os.kill(process.pid, signal.SIGINT)
    printed, complaints = process.communicate(timeout=60.0)
    assert (printed, complaints) == ("interrupted\n", "")
    assert time.monotonic() - began_s < 30.0
    assert started
    assert not alive(started)
    assert told(tmp_path / "begun") in (["Root 1", "Root 2"], ["Root 2", "Root 1"])
    with KeptRuns(tmp_path / "kept.db") as kept:
        assert kept.get_many([f"Root {number}" for number in range(100)]) == {"Root 0": {}}


def test_without_the_package_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sil.workers.dask_cluster", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    sentence = sentence_of(Engine(dask="tcp://127.0.0.1:8786"))
    assert sentence == "--dask needs the package distributed; install this one with [distributed]"


@needs_dask
def test_a_scheduler_file_that_is_missing_or_another_file_is_told(tmp_path: Path) -> None:
    assert "missing.json: there is no such scheduler file" in sentence_of(
        Engine(dask=str(tmp_path / "missing.json"))
    )
    for content in ("", "no json", "[]", "{}", '{"address": 3}'):
        (tmp_path / "other").write_text(content)
        assert sentence_of(Engine(dask=str(tmp_path / "other"))).endswith(
            "other: this is no file that a Dask scheduler wrote"
        )
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert "this is no file that a Dask scheduler wrote" in sentence_of(Engine(dask=str(tmp_path / "bytes")))
    assert f"{tmp_path}: the scheduler file cannot be read" in sentence_of(Engine(dask=str(tmp_path)))


@needs_dask
def test_a_scheduler_that_does_not_answer_is_told_soon_and_nothing_else_is(
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
def test_whoever_listens_and_is_no_scheduler_is_told(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sil.workers.dask_cluster.ANSWER_WITHIN_S", 1.0)
    with listening(answer) as address:
        began_s = time.monotonic()
        assert sentence_of(Engine(dask=address)) == f"no Dask scheduler answers at {address}"
        assert time.monotonic() - began_s < 20.0


@needs_dask
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:port", "nothing://127.0.0.1:1"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    assert sentence_of(Engine(dask=address)) == f"no Dask scheduler answers at {address}"


def test_a_cluster_without_workers_is_told_and_one_with_others_is(
    new_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(dask=str(new_cluster.file))
    with monkeypatch.context() as patched:
        patched.setattr("sil.workers.dask_cluster.WORKER_WITHIN_S", 0.5)
        assert "has no workers; start some with: dask worker tcp://" in sentence_of(engine)
    monkeypatch.setattr("sil.workers.dask_cluster.WORKER_WITHIN_S", 60.0)
    (tmp_path / "sil").mkdir()
    (tmp_path / "sil" / "__init__.py").touch()
    new_cluster.begin_worker("--no-nanny", python_path=str(tmp_path))
    sentence = sentence_of(engine)
    assert "cannot do runs of this version of sil" in sentence
    assert "No module named 'sil.workers'" in sentence


def test_workers_with_other_code_are_told(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import sil.workers.dask_cluster  # noqa: F401 (only now: there may be no Dask)

    monkeypatch.setattr("sil.workers.dask_cluster.code_and_data", lambda: "other code")
    assert "has another version of sil or of its libraries" in sentence_of(Engine(dask=str(cluster.file)))


def test_a_scheduler_that_goes_away_is_told_and_what_ended_is_kept(
    begin_command: Begin, new_cluster: Cluster, tmp_path: Path
) -> None:
    new_cluster.begin_worker("--no-nanny")
    command = begin_command(tmp_path, 100, 0.3, new_cluster.file)
    wait_for(tmp_path / "ended", 3)
    new_cluster.scheduler.kill()
    printed, complaints = command.communicate(timeout=60.0)
    assert printed.startswith("the Dask scheduler at tcp://")
    assert printed.endswith("is gone; the same command goes on from here\n")
    assert complaints == ""
    with KeptRuns(tmp_path / "kept.db") as kept:
        assert 2 <= len(kept.get_many([f"Root {number}" for number in range(100)])) < 100
