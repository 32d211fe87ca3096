"""The agents of machines: what they do with orders, and what they tell."""

from __future__ import annotations

import pytest

from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, RunId, Share
from scheduler.node_request import Node, Request
from scheduler.ports import MachineAnswered, OrderReceived, OrderRefused, RunEnded, RunLost, RunPreempted
from scheduler.rules import NODES_FREE
from sil.world.failures import Outage
from sil.world.guard.faults import SchedulerFault
from tests.sil.remote.worlds import Operator, order, world_of

RUN = RunId(0)


def starts(operator: Operator) -> list[tuple[float, int]]:
    return [(row[0], row[3]) for row in operator.world.trace.rows() if row[1] == "run_started"]


def test_an_order_that_arrives_again_starts_no_second_run_and_is_answered_again() -> None:
    operator = Operator(world_of())
    for time_s in (0.0, 10.0, 10.0):
        operator.at(time_s, operator.agents.on_order, order(0))
    operator.at(150.0, operator.agents.on_order, order(0))
    operator.at(150.0, operator.agents.on_acknowledged, RUN, 0)
    operator.until(1_000.0)
    assert starts(operator) == [(0.0, 0)]
    received = [(time_s, OrderReceived) for time_s in (0.0, 10.0, 10.0)]
    ended = [(time_s, RunEnded) for time_s in (100.0, 110.0, 130.0, 150.0)]
    assert operator.kinds() == received + ended


def test_a_run_whose_stop_order_arrives_first_is_never_started() -> None:
    operator = Operator(world_of())
    operator.at(0.0, operator.agents.on_stop, RUN, 0)
    operator.at(5.0, operator.agents.on_order, order(0))
    operator.at(6.0, operator.agents.on_acknowledged, RUN, 0)
    operator.at(7.0, operator.agents.on_order, order(0))
    operator.until(1_000.0)
    assert not starts(operator)
    assert operator.kinds() == [(0.0, RunPreempted), (5.0, RunPreempted)]


def test_a_run_that_is_stopped_twice_is_reported_until_that_is_acknowledged() -> None:
    operator = Operator(world_of())
    operator.at(0.0, operator.agents.on_order, order(0))
    operator.at(1.0, operator.agents.on_stop, RUN, 0)
    operator.at(2.0, operator.agents.on_stop, RUN, 0)
    operator.at(650.0, operator.agents.on_acknowledged, RUN, 0)
    operator.until(2_000.0)
    told_s = [time_s for time_s, notice in operator.told if isinstance(notice, RunPreempted)]
    assert told_s == [1.0, 2.0, 11.0, 31.0, 71.0, 151.0, 311.0, 471.0, 631.0]


def test_an_end_says_how_long_the_run_took() -> None:
    operator = Operator(world_of(run_s={0: 42.0}))
    operator.at(8.0, operator.agents.on_order, order(0))
    operator.until(55.0)
    assert operator.told[-1] == (50.0, RunEnded(RUN, 50.0, ran_s=42.0))


def test_a_machine_that_is_down_hears_nothing_and_reports_its_lost_run_when_it_is_back() -> None:
    operator = Operator(world_of(outages=[Outage(0, 50.0, 165.0)]))
    agents = operator.agents
    operator.at(0.0, agents.on_order, order(0))
    operator.at(60.0, agents.on_ping, 0)
    operator.at(60.0, agents.on_ping, 1)
    operator.at(61.0, agents.on_order, order(1))
    operator.at(62.0, agents.on_stop, RunId(2), 0)
    operator.at(63.0, agents.on_acknowledged, RUN, 0)
    operator.at(170.0, agents.on_ping, 0)
    operator.until(210.0)
    assert starts(operator) == [(0.0, 0)]
    assert operator.kinds() == [
        (0.0, OrderReceived),
        (60.0, MachineAnswered),
        (170.0, MachineAnswered),
        (200.0, RunLost),
    ]


def test_a_run_on_several_machines_is_answered_for_by_the_first_one() -> None:
    operator = Operator(world_of(3, outages=[Outage(2, 50.0, 60.0)]))
    operator.at(0.0, operator.agents.on_order, order(0, (1, 2)))
    operator.until(55.0)
    assert operator.kinds() == [(0.0, OrderReceived), (50.0, RunLost)]


def test_an_order_that_needs_a_machine_that_is_down_comes_back_as_a_lost_run() -> None:
    operator = Operator(world_of(outages=[Outage(1, 0.0, 60.0)]))
    operator.at(1.0, operator.agents.on_order, order(0, (0, 1)))
    operator.until(5.0)
    assert operator.kinds() == [(1.0, RunLost)]
    assert not operator.agents.active


def test_an_order_for_a_machine_whose_run_has_still_to_stop_is_refused_and_not_started_later() -> None:
    operator = Operator(world_of())
    operator.agents.doomed.add(RUN)
    operator.at(0.0, operator.agents.on_order, order(0, (0, 1)))
    operator.at(1.0, operator.agents.on_order, order(1, (1,)))
    operator.at(2.0, operator.agents.on_stop, RUN, 0)
    operator.at(3.0, operator.agents.on_order, order(1, (1,)))
    operator.at(4.0, operator.agents.on_acknowledged, RunId(1), 1)
    operator.at(4.0, operator.agents.on_acknowledged, RUN, 0)
    operator.at(5.0, operator.agents.on_order, order(2, (1,)))
    operator.until(50.0)
    assert starts(operator) == [(0.0, 0), (5.0, 2)]
    refused = [(row[0], row[2]) for row in operator.world.trace.rows() if row[1] == "order_refused"]
    assert refused == [(1.0, 1)]
    assert operator.kinds()[1:4] == [(1.0, OrderRefused), (2.0, RunPreempted), (3.0, OrderRefused)]


@pytest.mark.parametrize("doomed", [{1}, {2}, {0, 2}])
def test_an_order_for_a_busy_machine_is_a_fault_unless_the_run_there_is_to_stop(doomed: set[int]) -> None:
    """Whatever else is to stop: a run elsewhere, or the new run itself."""
    operator = Operator(world_of(3))
    operator.agents.doomed.update(map(RunId, doomed))
    operator.at(0.0, operator.agents.on_order, order(0, (0,)))
    operator.at(0.0, operator.agents.on_order, order(2, (2,)))
    operator.at(1.0, operator.agents.on_order, order(1, (1,)))
    operator.at(2.0, operator.agents.on_order, order(3, (1,)))
    if doomed != {1}:
        with pytest.raises(SchedulerFault, match=NODES_FREE):
            operator.until(5.0)
        return
    operator.until(5.0)
    assert operator.kinds()[-1] == (2.0, OrderRefused)


def test_an_order_for_a_licence_of_a_run_that_has_still_to_stop_is_refused() -> None:
    nodes = (Node(4, 8_192), Node(4, 8_192))
    request = Request(1, 1.0, 1_024, site_resources={"matlab": 1})

    def of(run: int, node: int) -> DispatchOrder:
        job = Job(JobId(run), "work", 0.0, request=request)
        return DispatchOrder(RunId(run), job, ON_NODES, (node,), 100.0, (Share(node, 1),))

    operator = Operator(world_of(nodes=nodes, site_resources={"matlab": 1}))
    operator.agents.doomed.add(RUN)
    operator.at(0.0, operator.agents.on_order, of(0, 0))
    operator.at(1.0, operator.agents.on_order, of(1, 1))
    operator.until(5.0)
    assert operator.kinds()[-1] == (1.0, OrderRefused)


def test_refusals_do_not_count_as_starts_of_a_job() -> None:
    """A job may be refused for hours, every few seconds, while a machine cannot be reached."""
    operator = Operator(world_of(run_s={0: 1e6}))
    operator.agents.doomed.add(RUN)
    operator.at(0.0, operator.agents.on_order, order(0))
    again = order(1).job
    for run in range(1, 1_200):
        operator.at(float(run), operator.agents.on_order, order(run, of=again))
        operator.at(float(run), operator.agents.on_acknowledged, RunId(run), 0)
    operator.until(2_000.0)
    assert operator.kinds()[-1] == (1_199.0, OrderRefused)
