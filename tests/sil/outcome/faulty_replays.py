"""Faults in compiled modules, and what finds each. Methods can be replaced in their plain form only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from scheduler.core.free_intervals import FreeIntervals, InOrder
from scheduler.core.identical import IdenticalNodes
from scheduler.core.profile import Profile
from scheduler.core.queue import Queue
from scheduler.node_request import Gpus, Node, Request
from scheduler.node_resources.core.codes import CORES, MEMORY, NONE, WHOLE
from scheduler.node_resources.core.state import NodeState
from scheduler.node_resources.core.timeline import Timeline
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.runs.compiled import CompiledReplay
from sil.runs.under_test import resolve
from sil.settings.replays import Estimates
from sil.workload.job_log import SCHEMA, JobLog
from sil.world.core.engine import Stuck
from sil.world.core.loop import Loop
from sil.world.events import ORDERS
from site_db.site_file.cluster import SiteNodes
from tests.sil.swarm.seeded_bugs import Bug

PROCESSORS = 16
N_JOBS = 120
MUCH = 3 * 2**30
"""MiB of memory: as many as are a number of 32 bits, but a few times as many are not."""


def _rows() -> list[tuple[float, ...]]:
    rng = np.random.default_rng(3)
    return [
        (k, float(5 * k), float(rng.integers(1, 90)), int(rng.integers(1, 9)), float(rng.integers(1, 120)), 1)
        for k in range(N_JOBS)
    ]


def on_processors() -> JobLog:
    return JobLog("random.swf", pl.DataFrame(_rows(), schema=SCHEMA, orient="row"), PROCESSORS)


def on_nodes() -> JobLog:
    """Of each three jobs, one uses most of the cores, one of the memory, and one of the GPUs."""
    cluster = SiteNodes({f"n{k}": Node(4, 2 * MUCH, ("a", "a")) for k in range(4)}, {}, {})
    with_request = [(*row, k) for k, row in enumerate(_rows())]
    jobs = pl.DataFrame(with_request, schema={**SCHEMA, "request": pl.Int64}, orient="row")
    kinds = Request(1, 1, 100), Request(1, 1, MUCH), Request(1, 1, 100, Gpus(1))
    requests = tuple(replace(kinds[k % 3], chunks=size) for k, size in enumerate(jobs["processors"]))
    return JobLog("random.txt", jobs, 16, cluster=cluster, requests=requests)


# -- faults: each function gets the method that it replaces, and then that method's arguments ----------------


def a_node_is_handed_out_twice(correct: Any, free: FreeIntervals, cursor: InOrder) -> None:
    """The last node of a pass is not taken."""
    cursor.node -= 1
    correct(free, cursor)


def a_job_holds_a_node_too_many(correct: Any, cursor: InOrder, n: int, intervals: Any, row: int) -> int:
    """The node behind its last one."""
    after: int = correct(cursor, n, intervals, row)
    intervals[after - 1, 1] += 1
    return after


def the_nodes_of_overdue_runs_are_given_back(correct: Any, replay: Loop) -> None:
    while (slot := replay.queue.overdue(replay.now_s)) != NONE:
        replay.queue.give_back(slot)


def nothing_happens(correct: Any, *given: Any) -> None:
    """A release is lost; what runs hold is never free; an array stays as short as it was."""


def one_interval_behind_those_of_a_run_is_read(correct: Any, nodes: IdenticalNodes, slot: int) -> None:
    nodes.n_intervals[slot] += 1
    correct(nodes, slot)
    nodes.n_intervals[slot] -= 1


def a_job_that_started_stays_in_the_queue(correct: Any, nodes: IdenticalNodes, *given: Any) -> None:
    correct(nodes, *given)
    slot = given[0]
    nodes.tree.set_leaf(nodes.place[slot], 1, nodes.size[slot], nodes.end_s[slot] - nodes.began_s[slot])
    nodes.n_waiting += 1


def cores_are_not_taken(correct: Any, state: NodeState, k: int, n: int, chunks: int, *of_gpus: int) -> int:
    taken: int = correct(state, k, n, chunks, *of_gpus)
    state.free[n, CORES] += chunks * state.kinds.need[k, CORES]
    return taken


def gpus_are_not_taken(correct: Any, state: NodeState, k: int, n: int, *given: int) -> int:
    taken: int = correct(state, k, n, *given)
    state.gpu_free[n] = WHOLE
    return taken


def memory_is_counted_in_32_bits(
    correct: Any, state: NodeState, k: int, n: int, chunks: int, *of_gpus: int
) -> int:
    taken: int = correct(state, k, n, chunks, *of_gpus)
    amount = chunks * state.kinds.need[k, MEMORY]
    state.free[n, MEMORY] += amount - amount.astype(np.int32)
    return taken


def memory_is_given_back_twice(
    correct: Any, state: NodeState, k: int, n: int, chunks: int, gpus: int
) -> None:
    correct(state, k, n, chunks, gpus)
    state.free[n, MEMORY] += chunks * state.kinds.need[k, MEMORY]


def a_reservation_ends_a_second_early(
    correct: Any, profile: Profile, start_s: float, end_s: float, nodes: int
) -> None:
    correct(profile, start_s, end_s - 1.0, nodes)


def a_reservation_is_for_a_node_too_few(
    correct: Any, profile: Profile, from_s: float, size: int, *given: float
) -> float:
    found_s: float = correct(profile, from_s, size - 1, *given)
    return found_s


def the_profile_stays_whatever_runs_end(correct: Any, profile: Profile, last: Profile) -> bool:
    return last.n > 0


def a_reservation_takes_no_cores(correct: Any, timeline: Timeline, *given: Any) -> None:
    kinds = timeline.nodes.kinds
    before = kinds.need.copy()
    kinds.need[:, CORES] = 0
    correct(timeline, *given)
    kinds.need[:] = before


OUT_OF_BOUNDS = "an index is out of bounds"
"""Which raises in plain Python, and if compiled with SIL_BOUNDS_CHECKS=1; other machine code goes on."""

Faults = dict[str, tuple[type, str, Callable[..., Any], str]]
"""Of each fault, the class and the method, what takes its place, and what finds it."""

FAULTS: Faults = {
    "a node is handed out twice": (
        FreeIntervals, "take_before", a_node_is_handed_out_twice, "no-machine-double-booked"
    ),
    "a job holds a node too many": (
        InOrder, "hand_out", a_job_holds_a_node_too_many, "no-machine-double-booked"
    ),
    "the nodes of overdue runs are given back": (
        Loop, "estimate_overdue", the_nodes_of_overdue_runs_are_given_back, "no-machine-double-booked"
    ),
    "a release is lost": (Queue, "give_back", nothing_happens, "no-job-lost"),
    "one interval behind those of a run is read": (
        IdenticalNodes, "turn_nodes", one_interval_behind_those_of_a_run_is_read, "no-machine-double-booked"
    ),
    "a job that started stays in the queue": (
        IdenticalNodes, "begin_on", a_job_that_started_stays_in_the_queue, "time-never-goes-back"
    ),
}  # fmt: skip
FAULTS_ON_NODES: Faults = {
    "cores are not taken": (NodeState, "take", cores_are_not_taken, "no-resource-above-capacity"),
    "GPUs are not taken": (NodeState, "take", gpus_are_not_taken, "no-resource-above-capacity"),
    "memory is counted in 32 bits": (
        NodeState, "take", memory_is_counted_in_32_bits, "no-resource-above-capacity"
    ),
    "memory is given back twice": (
        NodeState, "give_back", memory_is_given_back_twice, "no-resource-above-capacity"
    ),
    "nothing is given back": (NodeState, "give_back", nothing_happens, "no-job-lost"),
}  # fmt: skip
RESERVATION_FAULTS: Faults = {
    "a reservation ends a second early": (
        Profile, "add", a_reservation_ends_a_second_early, "no-job-lost"
    ),
    "a reservation is for a node too few": (
        Profile, "earliest_s", a_reservation_is_for_a_node_too_few, "no-more-nodes-than-there-are"
    ),
    "the profile stays whatever runs end": (
        Profile, "goes_on_as", the_profile_stays_whatever_runs_end, "no-job-lost"
    ),
    "there is no room in the profile": (Profile, "make_room", nothing_happens, OUT_OF_BOUNDS),
}  # fmt: skip
RESERVATION_FAULTS_ON_NODES: Faults = {
    "a reservation takes no cores": (
        Timeline, "put_in", a_reservation_takes_no_cores, "no-resource-above-capacity"
    ),
}  # fmt: skip


def _found(log: JobLog, scheduler: str, bug: Bug | None) -> str | None:
    """What finds the bug."""
    replay = CompiledReplay.of(log, resolve(scheduler), Estimates.USER, ORDERS["default"])
    assert not isinstance(replay, str), replay
    facts: list[pl.DataFrame] = []
    is_out = False
    with bug.seeded() if bug else nullcontext():
        try:
            facts.extend(chunk.facts for chunk in replay.chunks(log.jobs, (0, 0, scheduler)))
        except Stuck:
            pass
        except IndexError:
            is_out = True
    nodes = () if log.cluster is None else tuple(log.cluster.nodes.values())
    breach = (
        first_violation(pl.concat(facts), Capacity(len(nodes) or PROCESSORS, nodes=nodes)) if facts else None
    )
    if breach is not None:
        return breach.rule
    return OUT_OF_BOUNDS if is_out else None


def found_and_expected() -> dict[str, tuple[str | None, str | None]]:
    """By fault."""
    found: dict[str, tuple[str | None, str | None]] = {}
    cases = (
        (on_processors(), "easy", FAULTS),
        (on_nodes(), "easy", FAULTS_ON_NODES),
        (on_processors(), "conservative", RESERVATION_FAULTS),
        (on_nodes(), "conservative", RESERVATION_FAULTS_ON_NODES),
    )
    with patch("sil.runs.compiled.CHUNK", 1):  # facts up to an exception are seen
        for log, scheduler, faults in cases:
            found[f"none, {scheduler}, {log.name}"] = _found(log, scheduler, None), None
            for name, (where, method, faulty, expected) in faults.items():
                found[name] = _found(log, scheduler, Bug(where, method, faulty, False)), expected
    return found
