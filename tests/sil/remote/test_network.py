"""What becomes of messages on an unreliable network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest

from sil.world.events import EventQueue, MessageDue, SimClock
from sil.world.remote.network import MessageFault, Network, NetworkPartition, Unreliable


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def arrivals(
    faults: Sequence[MessageFault], sent_s: Sequence[float], machine: int = 0
) -> list[tuple[float, int]]:
    """When messages arrive that are sent at these times, and their numbers."""
    clock, events, arrived = SimClock(), EventQueue(), list[tuple[float, int]]()
    network = Network(clock, events, faults)
    for number, time_s in enumerate(sent_s):
        clock.now_s = time_s
        network.send(machine, partial(lambda number: arrived.append((clock.now_s, number)), number))
    while len(events):
        clock.now_s, event = events.pop()
        assert isinstance(event, MessageDue)
        event.act()
    return arrived


def test_without_faults_messages_arrive_at_once_in_the_order_in_which_they_are_sent() -> None:
    assert arrivals([], [0.0, 0.0, 5.0]) == [(0.0, 0), (0.0, 1), (5.0, 2)]


def test_a_share_of_messages_is_lost() -> None:
    assert len(arrivals([Unreliable("lost", rng(), 0.3)], [0.0] * 10_000)) == pytest.approx(7_000, abs=140)


def test_late_messages_overtake_each_other_and_are_as_late_as_their_mean() -> None:
    found = arrivals([Unreliable("late", rng(), by_s=50.0)], [float(k) for k in range(5_000)])
    assert [number for _, number in found] != sorted(number for _, number in found)
    late_s = [time_s - number for time_s, number in found]
    assert min(late_s) >= 0.0
    assert np.mean(late_s) == pytest.approx(50.0, rel=0.05)


def test_a_repeated_message_arrives_at_once_and_again_later() -> None:
    found = arrivals([Unreliable("repeated", rng(), 1.0, 50.0)], [0.0, 0.0])
    assert sorted(number for _, number in found) == [0, 0, 1, 1]
    assert [time_s for time_s, _ in found[:2]] == [0.0, 0.0]
    assert all(time_s > 0.0 for time_s, _ in found[2:])


def test_messages_that_are_held_back_are_overtaken_by_later_ones() -> None:
    found = arrivals([Unreliable("reordered", rng(), 0.5, 100.0)], [float(k) for k in range(100)])
    held = {number for time_s, number in found if time_s != number}
    assert all(time_s == number + (100.0 if number in held else 0.0) for time_s, number in found)
    assert 30 < len(held) < 70


def test_in_a_partition_no_message_passes_and_those_on_their_way_are_lost() -> None:
    held_back = Unreliable("reordered", rng(), 1.0, 10.0)
    cut = NetworkPartition(frozenset({0}), 100.0, 200.0)
    sent_s = [89.0, 90.0, 195.0, 200.0]
    assert [number for _, number in arrivals([held_back, cut], sent_s)] == [0, 3]
    assert len(arrivals([held_back, cut], sent_s, machine=1)) == 4


def test_a_fault_that_is_over_affects_no_message_that_is_sent_later() -> None:
    faults = [
        Unreliable("reordered", rng(), 1.0, 10.0, until_s=50.0),
        Unreliable("lost", rng(), 1.0, until_s=50.0),
    ]
    assert arrivals(faults, [49.0, 50.0, 51.0]) == [(50.0, 1), (51.0, 2)]
    assert arrivals(faults[:1], [49.0, 50.0]) == [(50.0, 1), (59.0, 0)]


def test_faults_compose_in_their_order() -> None:
    doubled_then_lost = [Unreliable("repeated", rng(), 1.0, 5.0), Unreliable("lost", rng(), 0.5)]
    lost_then_doubled = doubled_then_lost[::-1]
    numbers = [
        [number for _, number in arrivals(faults, [0.0] * 400)]
        for faults in (doubled_then_lost, lost_then_doubled)
    ]
    copies = [{number: of.count(number) for number in of} for of in numbers]
    assert set(copies[0].values()) == {1, 2}
    assert len(copies[0]) == pytest.approx(300, abs=35)
    assert set(copies[1].values()) == {2}
    assert len(copies[1]) == pytest.approx(200, abs=40)


def test_equal_random_numbers_give_equal_messages() -> None:
    def faults() -> list[MessageFault]:
        return [
            Unreliable("late", rng(1), by_s=5.0),
            Unreliable("lost", rng(2), 0.2),
            Unreliable("repeated", rng(3), 0.2, 9.0),
            Unreliable("reordered", rng(4), 0.2, 9.0),
        ]

    sent_s = [float(k) for k in range(200)]
    assert arrivals(faults(), sent_s) == arrivals(faults(), sent_s)
