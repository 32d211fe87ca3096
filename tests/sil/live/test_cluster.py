"""Live runs on shared nodes: CCS controls real processes through its ports."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import psutil
import pytest

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.coscheduling.ports import PeerEvent, Topic
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.time_shared.social_contract import SocialContract
from sil.experiment.live import compare_live, run_live_and_simulated
from sil.live.computer import Computer, NodeSettings, usable_cores
from sil.live.network import PORT, loopback, may_have_namespaces
from sil.live.programs import MB, PAGE, Parallel, RealProcesses, Task, held, of_process, pending_packets
from sil.settings import files
from sil.settings.experiment_file import read_experiment
from sil.trace.facts import SCHEMA, Fact
from sil.workers.executor import Listener
from sil.world.processes.core.programs import Program
from tests.commands import sil, the_sentence
from tests.sil.live.test_live import wait_for

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or len(usable_cores()) < 2, reason="two nodes need two cores, and Linux"
)

SECOND = 10**9


@contextmanager
def cluster(memory_mb: float = 512.0, period_s: float = 0.02) -> Iterator[Computer]:
    """Two nodes of which CCS leaves parallel jobs half of the memory while a user is there."""
    how = memory_mb, SocialContract(0.5), Coscheduler.USER_SPACE, period_s, 0.01, [1.0]
    made = Computer([NodeSettings(name, *how) for name in ("n0", "n1")])
    try:
        made.begin()
        made.most_s = 30.0
        yield made
    finally:
        made.close()


def start(real: Computer, run: int, nodes: tuple[int, ...], seconds: float, memory_mb: float = 0.0) -> None:
    job = Job(JobId(run), "CG.S", 0.0, n_tasks=len(nodes))
    steps = max(1, round(seconds / 0.02))
    program = Program(steps, round(seconds * SECOND), 0, 0, 1460, 0)
    order = DispatchOrder(RunId(run), job, -1, nodes, seconds)
    real.start(order, Parallel("CG.S", program, memory_mb))


def changes(real: Computer, n: int) -> list[tuple[str, int, bool]]:
    """What changes, when it is so much."""
    found: list[tuple[str, int, bool]] = []
    while len(found) < n:
        happened = real.happened(1e6)
        assert happened is not None
        found += happened[2]
    return found


@pytest.mark.parametrize("nodes", [(0,), (0, 1)])
def test_a_parallel_job_uses_the_cpu_time_of_its_program(
    nodes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.live.computer.may_have_namespaces", lambda: False)
    with cluster() as real:
        assert real._addresses[0][0].startswith("127.")
        start(real, 3, nodes, 0.2)
        happened = real.happened(1e6)
        assert happened is not None
        assert happened[1:] == ([3], [])
        assert real.used_s(RunId(3)) == pytest.approx(0.2, abs=0.05)


def test_the_youngest_job_stops_on_both_nodes_while_a_user_needs_its_memory_and_others_get_nice_values() -> (
    None
):
    with cluster() as real:
        start(real, 1, (0,), 60.0, 100.0)
        start(real, 2, (0, 1), 60.0, 200.0)
        real.demand(0, 0.5, 250.0)  # 256 MB are left
        assert changes(real, 1) == [("run", 2, True)]
        processes = [psutil.Process(pid) for pid in real._running[RunId(2)].pids.values()]
        wait_for(lambda: all(process.status() == psutil.STATUS_STOPPED for process in processes))
        assert [process.status() for process in processes] == [psutil.STATUS_STOPPED] * 2
        older = psutil.Process(real._running[RunId(1)].pids[0])
        wait_for(lambda: older.nice() > 0)
        assert older.nice() > 0, "it uses more than half of the CPU"
        real.demand(0, 0.5, 100.0)
        assert changes(real, 1) == [("run", 2, False)]
        assert (0, 1) in real.lowered


def test_unread_packets_belong_to_the_process_that_owns_the_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        receiver, _ = listener.accept()
    read, written = os.pipe()
    pid = os.fork()
    if pid == 0:
        sender.close()
        os.read(read, 1)
        os._exit(0)
    try:
        receiver.close()
        assert of_process(pid, pending_packets()) == 0
        sender.sendall(bytes(3000))
        wait_for(lambda: of_process(pid, pending_packets()) == 3)
        assert of_process(pid, pending_packets()) == 3, "3,000 bytes are 3 packets of 1,460"
    finally:
        os.write(written, b".")
        os.waitpid(pid, 0)
        sender.close()


def ports(*addresses: tuple[str, int], lan: socket.socket) -> tuple[RealProcesses, list[tuple[object, ...]]]:
    told: list[tuple[object, ...]] = []
    return RealProcesses(512.0, lan, addresses, lambda *what: told.append(what)), told


def test_stops_restarts_and_nice_values_are_those_of_the_process() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as lan:
        of_node, told = ports(lan=lan)
        of_node.tasks[pid] = Task(4, 1.0, 0, (0, 1), [])
        shown = psutil.Process(pid)
        of_node.stop(pid)
        wait_for(lambda: shown.status() == psutil.STATUS_STOPPED)
        assert shown.status() == psutil.STATUS_STOPPED
        of_node.resume(pid)
        wait_for(lambda: shown.status() != psutil.STATUS_STOPPED)
        assert shown.status() != psutil.STATUS_STOPPED
        of_node.set_nice(pid, 7)
        assert shown.nice() == 7
        assert of_node.nodes_of(RunId(4)) == (0, 1)
        shown.kill()
        os.waitpid(pid, 0)
        of_node.stop(pid)
        assert of_node.processes() == [], "it has ended"
    assert told == [("stop", 4), ("continue", 4), ("nice", 4, 7)]


def test_events_are_accepted_only_from_nodes_of_the_cluster() -> None:
    one, two, stranger = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3))
    with one, two, stranger:
        for lan in (one, two, stranger):
            lan.bind(("127.0.0.1", 0))
        addresses = one.getsockname(), two.getsockname()
        event = PeerEvent(Topic.STOP, RunId(3), 0, 5)
        ports(*addresses, lan=one)[0].send(1, event)
        receiver, _ = ports(*addresses, lan=two)
        assert receiver.received() == event
        ports(*addresses, lan=stranger)[0].send(1, event)
        assert receiver.received() is None


def test_the_memory_that_a_process_holds_is_in_use() -> None:
    before = psutil.Process().memory_info().rss
    more_mb = 50.0
    with held(before / MB + more_mb):
        assert psutil.Process().memory_info().rss - before == pytest.approx(more_mb * MB, abs=100 * PAGE)


def test_a_job_class_without_a_program_is_refused(here: Path) -> None:
    cluster_file = files.built_in("experiments")["real-cluster"].read_text()
    site = files.built_in("sites")["two-nodes"].read_text().replace("CG.S", "LU.S")
    (here / "site.toml").write_text(site)
    path = here / "own.toml"
    path.write_text(cluster_file.replace('"two-nodes"', '"site.toml"'))
    assert "job class 'LU.S' has no real program" in the_sentence(sil("live", path))


def test_nodes_that_would_use_more_memory_than_is_free_are_refused(here: Path) -> None:
    site = files.built_in("sites")["two-nodes"].read_text()
    (here / "site.toml").write_text(site.replace("memory_mb = 512", "memory_mb = 9e9"))
    experiment = files.built_in("experiments")["real-cluster"].read_text()
    (here / "own.toml").write_text(experiment.replace('"two-nodes"', '"site.toml"'))
    assert "the nodes have 18,000,000,000 MB of memory" in the_sentence(sil("live", here / "own.toml"))


def test_loopback_addresses_in_use_are_skipped() -> None:
    one = loopback(2)
    with socket.socket(type=socket.SOCK_DGRAM) as taken:
        taken.bind(one[1])
        assert not {*one} & {*loopback(2)}


@pytest.mark.skipif(not may_have_namespaces(), reason="this user may not make network namespaces")
def test_nodes_have_network_namespaces_in_which_they_reach_only_each_other() -> None:
    with cluster() as real:
        within = {os.readlink(f"/proc/{process.pid}/ns/net") for process in real._processes}
        assert len(within | {os.readlink("/proc/self/ns/net")}) == 3
        assert real._addresses == [("10.0.0.1", PORT), ("10.0.0.2", PORT)]
        start(real, 3, (0, 1), 0.1)
        happened = real.happened(1e6)
        assert happened is not None
        assert happened[1] == [3]
        of_node = Path(f"/proc/{real._processes[1].pid}/net/dev").read_text().splitlines()[2:]
        assert sorted(line.split(":")[0].strip() for line in of_node) == ["lan", "lo"]


def test_starts_come_before_what_ccs_decides_and_the_order_of_each_counts() -> None:
    def facts(*events: tuple[str, int]) -> pl.DataFrame:
        rows = [
            {
                "event": event,
                "job": job,
                "resource": -1 if event == Fact.RUN_STARTED else None,
                "machines": [{"first": 0, "last": 1}],
            }
            for event, job in events
        ]
        return pl.DataFrame(rows, schema=SCHEMA)

    one = facts((Fact.RUN_STARTED, 1), (Fact.RUN_STOPPED, 1), (Fact.RUN_STARTED, 2), (Fact.RUN_STOPPED, 2))
    late = facts((Fact.RUN_STARTED, 1), (Fact.RUN_STARTED, 2), (Fact.RUN_STOPPED, 1), (Fact.RUN_STOPPED, 2))
    other = facts((Fact.RUN_STARTED, 1), (Fact.RUN_STOPPED, 2), (Fact.RUN_STARTED, 2), (Fact.RUN_STOPPED, 1))
    assert compare_live(one, late, ({}, {}), ("a", "b")).diverged_at is None
    assert compare_live(one, other, ({}, {}), ("a", "b")).diverged_at == 2
    lowered = [{(1, 1): None, (0, 2): None}, {(0, 2): None, (1, 1): None}, {(0, 1): None, (0, 2): None}]
    assert compare_live(one, one, lowered[:2], ("a", "b")).diverged_at is None, "on different nodes"
    assert compare_live(one, one, lowered[1:], ("a", "b")).diverged_at == 4


@pytest.mark.long
def test_real_jobs_on_shared_nodes_match_the_simulation_in_decisions_and_times(tmp_path: Path) -> None:
    source = files.built_in("experiments")["real-cluster"]
    found, cpu_s = run_live_and_simulated(read_experiment(source), source, tmp_path, "normal", Listener())
    assert found.diverged_at is None, (found.live, found.simulated)
    facts = [fact for fact, _, _ in found.live]
    assert (facts.count(Fact.RUN_STOPPED), facts.count(Fact.RUN_CONTINUED)) == (2, 2)
    assert facts.count("lowered") == 9
    live_s, simulated_s = found.mean_turnaround_s
    assert live_s == pytest.approx(simulated_s, rel=0.25), "0.1 on cores that nobody else uses"
    assert len(cpu_s) == 6
