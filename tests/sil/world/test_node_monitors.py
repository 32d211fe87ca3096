"""Simulated monitors of time-shared nodes: smoothing, delay and loss of samples."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest

from sil.world.events import EventQueue, LocalChanged, MonitorNews, SampleDue, SimClock
from sil.world.monitors import NodeMonitors, Sampling


def monitors_of(sampling: Sampling) -> tuple[NodeMonitors, SimClock, EventQueue]:
    clock, events = SimClock(), EventQueue()
    return NodeMonitors(clock, events, sampling, np.random.default_rng(1)), clock, events


def test_a_sample_is_the_cpu_share_smoothed_over_time() -> None:
    monitors, clock, _ = monitors_of(Sampling(interval_s=5.0, smoothing_s=60.0))
    monitors.local_changed(LocalChanged(3, 0.8, 200.0, True))
    clock.now_s = 20.0
    monitors.local_changed(LocalChanged(3, 0.0, 200.0, True))
    clock.now_s = 50.0
    monitors.sample(3)
    came, sampled = monitors.news()
    assert (came.local_cpu, came.user_is_there) == (0.0, True)
    assert sampled.local_cpu == pytest.approx(0.8 * (1 - exp(-20 / 60)) * exp(-30 / 60))
    assert (sampled.node, sampled.local_tasks, sampled.local_memory_mb) == (3, 0.0, 200.0)
    assert monitors.news() == [], "each reading is reported once"


def test_samples_arrive_in_order_and_with_a_delay() -> None:
    monitors, clock, events = monitors_of(Sampling(interval_s=5.0, delay_s=2.0))
    monitors.local_changed(LocalChanged(0, 0.5, 100.0, False))
    assert events.pop() == (5.0, SampleDue(0))
    clock.now_s = 5.0
    monitors.sample(0)
    assert monitors.news() == []
    assert events.pop() == (7.0, MonitorNews())
    clock.now_s = 7.0
    assert [reading.measured_s for reading in monitors.news()] == [5.0]
    assert events.pop() == (10.0, SampleDue(0))


def test_samples_may_be_lost_but_the_arrival_of_a_local_user_is_reported() -> None:
    monitors, clock, _ = monitors_of(Sampling(lost_share=1.0))
    monitors.local_changed(LocalChanged(0, 0.5, 100.0, True))
    clock.now_s = 5.0
    monitors.sample(0)
    assert [reading.measured_s for reading in monitors.news()] == [0.0]
