"""CCS on nodes that are plain objects: what it stops, continues and limits, and what nodes tell others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from math import inf

import pytest

from scheduler.coscheduling import daemon
from scheduler.coscheduling.core.dynamic_priority import IN_KERNEL, IN_USER_SPACE, NO_PRIORITY
from scheduler.coscheduling.daemon import Cooperating, Coscheduler, Daemon
from scheduler.coscheduling.ports import DaemonPorts, ParallelProcess, PeerEvent, Topic
from scheduler.model import RunId
from scheduler.time_shared.social_contract import SocialContract


@dataclass
class FakeNode:
    """A node whose processes and user are what a test says; it sends to `cluster`, if at all."""

    number: int
    cluster: list[FakeNode]
    jobs: dict[int, ParallelProcess] = field(default_factory=dict)
    now_s: float = 0.0
    idle: float = inf
    local_mb: float = 0.0
    stopped: set[int] = field(default_factory=set)
    nice: dict[int, int] = field(default_factory=dict)
    shares: dict[int, float] = field(default_factory=dict)
    sent: list[tuple[int, PeerEvent]] = field(default_factory=list)
    daemon: Daemon = field(init=False)

    def with_daemon(self, where: str) -> FakeNode:
        daemon = Coscheduler(where).daemon(self.number, DaemonPorts(*[self] * 6), SocialContract(0.5))
        assert daemon is not None
        self.daemon = daemon
        return self

    def processes(self) -> Sequence[ParallelProcess]:
        return list(self.jobs.values())

    def idle_s(self) -> float:
        return self.idle

    def memory_mb(self) -> tuple[float, float]:
        return 512.0, self.local_mb

    def set_nice(self, process: int, nice: int) -> None:
        self.nice[process] = nice

    def set_quantum_share(self, process: int, share: float) -> None:
        self.shares[process] = share

    def stop(self, process: int) -> None:
        assert process not in self.stopped
        self.stopped.add(process)

    def resume(self, process: int) -> None:
        self.stopped.remove(process)

    def nodes_of(self, run: RunId) -> Sequence[int]:
        return [node.number for node in self.cluster if run in node.jobs]

    def send(self, node: int, event: PeerEvent) -> None:
        self.sent.append((node, event))

    def has(self, *runs: tuple[int, float]) -> FakeNode:
        """Processes of runs with so many MB, in the order of their starts."""
        for k, (run, memory_mb) in enumerate(runs):
            self.jobs[run] = ParallelProcess(run, RunId(run), k, 0.0, memory_mb, 0)
        return self

    def uses(self, run: int, cpu_s: float, packets: int = 0) -> None:
        self.jobs[run] = self.jobs[run]._replace(cpu_s=cpu_s, packets=packets)


def pair(where: str) -> tuple[FakeNode, FakeNode]:
    cluster: list[FakeNode] = []
    cluster += [FakeNode(n, cluster).with_daemon(where) for n in range(2)]
    return cluster[0], cluster[1]


def deliver(node: FakeNode, other: FakeNode) -> None:
    for _, event in node.sent:
        other.daemon.receive(event)
    node.sent.clear()


@pytest.mark.parametrize("where", ["kernel", "user_space"])
def test_the_youngest_job_stops_on_all_its_nodes_and_the_oldest_continues_first(where: str) -> None:
    one, two = pair(where)
    one.has((1, 150.0), (2, 150.0), (3, 120.0))
    two.has((1, 150.0), (3, 120.0))
    one.idle, one.local_mb = 0.0, 300.0  # 256 MB are left
    one.daemon.sample()
    assert one.stopped == {2, 3}
    deliver(one, two)
    assert two.stopped == {3}
    one.local_mb = 100.0  # 348 MB
    one.daemon.sample()
    assert one.stopped == {3}, "2 is older"
    one.idle = inf
    one.daemon.sample()
    deliver(one, two)
    assert one.stopped == two.stopped == set()


def test_memory_stays_reserved_for_an_older_job_that_another_node_has_stopped() -> None:
    one, two = pair("kernel")
    one.has((1, 200.0), (2, 200.0))
    two.has((1, 200.0))
    one.daemon.receive(PeerEvent(Topic.STOP, RunId(1), 1, 1))
    assert one.stopped == {1}
    one.idle, one.local_mb = 0.0, 400.0  # 256 MB: 2 runs alone
    one.daemon.sample()
    assert one.stopped == {1}
    one.daemon.receive(PeerEvent(Topic.RESTART, RunId(1), 1, 2))
    assert one.stopped == {2}


def test_a_job_that_two_nodes_stop_continues_when_both_have_room() -> None:
    node = FakeNode(0, [])
    together = Cooperating(0, node)
    for sender in (1, 2):
        together.receive(PeerEvent(Topic.STOP, RunId(7), sender, 1))
    together.receive(PeerEvent(Topic.RESTART, RunId(7), 1, 2))
    assert together.is_stopped(RunId(7))
    together.receive(PeerEvent(Topic.RESTART, RunId(7), 2, 2))
    assert not together.is_stopped(RunId(7))


def test_the_order_in_which_events_arrive_does_not_matter() -> None:
    events = [
        PeerEvent(topic, RunId(7), 1, number)
        for number, topic in enumerate(
            (Topic.STOP, Topic.RESTART, Topic.LOCAL, Topic.STOP, Topic.NO_LOCAL), 1
        )
    ]
    for order in permutations(events):
        together = Cooperating(0, FakeNode(0, []))
        for event in order:
            together.receive(event)
        assert together.is_stopped(RunId(7))
        assert not together.is_limited(RunId(7))


def test_what_ended_runs_were_told_is_forgotten() -> None:
    one, _ = pair("kernel")
    one.has((1, 300.0))
    one.daemon.sample()
    one.daemon.receive(PeerEvent(Topic.STOP, RunId(1), 1, 1))
    del one.jobs[1]
    one.daemon.sample()
    one.has((1, 300.0))
    one.stopped.clear()
    one.daemon.sample()
    assert one.stopped == set()


def test_in_the_kernel_quanta_are_shorter_at_the_user_and_on_the_other_nodes_until_a_minute_later() -> None:
    one, two = pair("kernel")
    one.has((1, 10.0))
    two.has((1, 10.0), (2, 10.0))
    one.idle = 5.0
    one.daemon.sample()
    deliver(one, two)
    assert one.shares == two.shares == {1: 0.5}, "2 has no process where the user is"
    one.idle = 59.0
    one.daemon.sample()
    assert (one.shares, one.sent) == ({1: 0.5}, [])
    one.idle = 61.0
    one.daemon.sample()
    deliver(one, two)
    assert one.shares == two.shares == {1: 1.0}


def test_in_user_space_priorities_fall_while_the_contract_is_exceeded_and_recover() -> None:
    node = FakeNode(0, []).with_daemon("user_space_without_dyn").has((1, 10.0), (2, 10.0))
    node.idle = 0.0
    seen = []
    for k, share in enumerate((0.9, 0.9, 0.9, 0.9, 0.9, 0.3, 0.3)):
        node.now_s = k + 1.0
        used = node.jobs[1].cpu_s + share / 2
        node.uses(1, used, packets=50)
        node.uses(2, used)
        node.daemon.sample()
        seen.append(node.nice.get(1, 0))
    assert seen == [5, 10, 15, 19, 19, 14, 9]
    assert node.shares == {}


def test_a_job_is_limited_here_for_the_user_of_another_node_only_if_it_uses_more_than_its_share() -> None:
    one, two = pair("user_space_without_dyn")
    one.has((1, 10.0))
    two.has((1, 10.0), (2, 10.0))
    one.idle = 0.0
    one.daemon.sample()
    deliver(one, two)
    for k, share in enumerate((0.4, 0.6)):
        two.now_s = k + 1.0
        two.uses(1, two.jobs[1].cpu_s + share)
        two.uses(2, two.jobs[2].cpu_s + 0.6)
        two.daemon.sample()
        assert two.nice == ({} if k == 0 else {1: 5})


def test_packets_raise_priorities_in_user_space_until_the_next_sample() -> None:
    node = FakeNode(0, []).with_daemon("user_space").has((1, 10.0), (2, 10.0))
    node.uses(1, 0.0, packets=4)
    node.uses(2, 0.0, packets=45)
    node.daemon.sample()
    assert node.nice == {1: -4, 2: -10}
    node.uses(1, 0.0)
    node.daemon.sample()
    assert node.nice == {1: 0, 2: -10}


def test_packets_count_in_the_kernel_and_not_without_dyn() -> None:
    assert [IN_KERNEL.bonus(n) for n in (0, 3, 45)] == [0, 3, 45]
    assert [IN_USER_SPACE.bonus(n) for n in (0, 3, 45)] == [0, 3, 10]
    assert NO_PRIORITY.bonus(45) == 0
    assert Coscheduler("kernel").in_kernel() is IN_KERNEL
    assert (
        Coscheduler("kernel_without_dyn").in_kernel() is Coscheduler("user_space").in_kernel() is NO_PRIORITY
    )


def test_dyn_stops_those_without_packets_where_another_has_more_than_priorities_express() -> None:
    node = FakeNode(0, []).with_daemon("user_space_stopping").has(*((run, 80.0) for run in range(4)))
    node.local_mb, node.idle = 256.0, 0.0  # job 3 stops, since there are 256 MB for parallel jobs
    node.uses(1, 0.0, packets=3)
    node.uses(3, 0.0, packets=45)
    seen = []
    for packets in (10, 11, 11, 45, 0):
        node.uses(2, 0.0, packets=packets)
        node.daemon.sample()
        seen.append(set(node.stopped))
    assert seen == [{3}, {0, 3}, {3}, {0, 3}, {3}], "never at two samples in turn; job 3 needs memory"


def _loses_events(together: Cooperating, event: PeerEvent) -> None:
    if event.sender == together._node:
        RECEIVE(together, event)


RECEIVE = Cooperating.receive


def _limits_nothing(space: object, processes: object, user_is_there: object) -> None:
    pass


@pytest.mark.parametrize(
    ("of", "name", "fault", "found_by"),
    [
        (daemon, "IN_KERNEL", NO_PRIORITY, test_packets_count_in_the_kernel_and_not_without_dyn),
        (
            daemon,
            "_IN_USER_SPACE",
            dict.fromkeys(Coscheduler, NO_PRIORITY),
            test_packets_raise_priorities_in_user_space_until_the_next_sample,
        ),
        (
            daemon.InKernel,
            "limit",
            _limits_nothing,
            test_in_the_kernel_quanta_are_shorter_at_the_user_and_on_the_other_nodes_until_a_minute_later,
        ),
        (
            daemon,
            "NICE_STEP",
            0,
            test_in_user_space_priorities_fall_while_the_contract_is_exceeded_and_recover,
        ),
        (
            daemon.Jim,
            "keep_memory",
            _limits_nothing,
            partial(test_the_youngest_job_stops_on_all_its_nodes_and_the_oldest_continues_first, "kernel"),
        ),
        (Cooperating, "receive", _loses_events, test_a_job_that_two_nodes_stop_continues_when_both_have_room),
        (
            Cooperating,
            "receive",
            _loses_events,
            test_in_the_kernel_quanta_are_shorter_at_the_user_and_on_the_other_nodes_until_a_minute_later,
        ),
    ],
    ids=[
        *("DYN in the kernel", "DYN in user space", "JIM: CPU in the kernel", "JIM: CPU in user space"),
        *("JIM: memory", "Cooperating: stops", "Cooperating: users"),
    ],
)
def test_a_module_that_does_nothing_is_found(
    of: object, name: str, fault: object, found_by: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found_by()
    monkeypatch.setattr(of, name, fault)
    with pytest.raises(AssertionError):
        found_by()
