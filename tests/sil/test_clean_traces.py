"""The fast check of traces against the sequential one, on traces that are valid, odd or broken."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.outcome import invariants
from sil.outcome.clean_trace import CleanTrace
from sil.outcome.invariants import Capacity, first_breach
from sil.trace.facts import Fact
from tests.builders import trace
from tests.examples import up_to

Row = tuple[float, Fact, dict[str, Any]]

ENDED, PREEMPTED, LOST = Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST
OTHERS = [Fact.PASSED_OVER, Fact.JOB_DESCRIBED, Fact.RUN_STOPPED, Fact.FAULT]


class Machine:
    """Makes a valid trace step by step."""

    def __init__(self, draw: st.DrawFn, n: int) -> None:
        self.draw, self.n = draw, n
        self.rows: list[Row] = []
        self.time_s = 0.0
        self.waiting: list[int] = []
        self.running: dict[int, tuple[int, float, list[int]]] = {}
        self.down: set[int] = set()
        self.released: list[Row] = []
        """Ends of runs whose nodes are free already, to be reported at the end of the instant."""
        self.n_jobs = self.n_runs = 0

    def row(self, fact: Fact, **columns: Any) -> Row:
        return self.time_s, fact, columns

    def arrives(self) -> None:
        self.rows.append(self.row(Fact.JOB_ARRIVED, job=self.n_jobs, job_class="rigid", user="ann"))
        self.waiting.append(self.n_jobs)
        self.n_jobs += 1

    def starts(self) -> None:
        held = {node for _, _, nodes in self.running.values() for node in nodes} | self.down
        free = [node for node in range(self.n) if node not in held]
        if not self.waiting or not free:
            return
        job = self.waiting.pop(self.draw(st.integers(0, len(self.waiting) - 1)))
        first, last = sorted(self.draw(st.tuples(*[st.integers(0, len(free) - 1)] * 2)))
        nodes = free[first : last + 1 : self.draw(st.sampled_from([1, 1, 2]))]
        run, self.n_runs = self.n_runs, self.n_runs + self.draw(st.integers(1, 2))
        self.rows.append(self.row(Fact.RUN_STARTED, job=job, run=run, resource=-1, machines=nodes))
        self.running[run] = job, self.time_s, nodes

    def ends(self, fact: Fact = ENDED) -> None:
        if not self.running:
            return
        run = self.draw(st.sampled_from(sorted(self.running)))
        job, since_s, _ = self.running.pop(run)
        row = self.row(fact, job=job, run=run, resource=-1)
        if fact is ENDED and since_s < self.time_s and self.draw(st.booleans()):
            self.released.append(row)
            return
        self.rows.append(row)
        if fact is not ENDED:
            self.waiting.append(job)

    def is_refused(self) -> None:
        if self.waiting:
            self.rows.append(self.row(Fact.JOB_REFUSED, job=self.waiting.pop(), detail="too large"))

    def changes(self) -> None:
        node = self.draw(st.integers(0, self.n - 1))
        fact = Fact.MACHINE_UP if node in self.down else Fact.MACHINE_DOWN
        self.rows.append(self.row(fact, resource=node))
        self.down ^= {node}

    def passes(self) -> None:
        self.rows += self.released
        self.released.clear()
        self.time_s += self.draw(st.sampled_from([0.5, 1.0, 7.0]))

    def finished(self) -> list[Row]:
        while self.waiting or self.running:
            self.passes()
            while self.running:
                self.ends()
            self.starts()
        self.passes()
        return self.rows


STEPS = [
    *[Machine.arrives, Machine.starts, Machine.starts, Machine.ends, Machine.passes] * 3,
    lambda machine: machine.ends(PREEMPTED),
    lambda machine: machine.ends(LOST),
    Machine.is_refused,
    Machine.changes,
]
SIZES = st.sampled_from([1, 3, 5, 64, 65, 130])


@st.composite
def valid_traces(draw: st.DrawFn) -> tuple[int, list[Row]]:
    machine = Machine(draw, draw(SIZES))
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=40)):
        step(machine)
    machine.rows += [machine.row(Fact.MACHINE_UP, resource=node) for node in sorted(machine.down)]
    machine.down.clear()
    return machine.n, machine.finished()


@st.composite
def spoilt_traces(draw: st.DrawFn) -> tuple[int, list[Row]]:
    """Some rows are left out, doubled, moved, or have another time, job, run or machines."""
    n, rows = draw(valid_traces())
    for _ in range(draw(st.integers(1, 3)) if rows else 0):
        k = draw(st.integers(0, len(rows) - 1))
        time_s, fact, columns = rows[k]
        match draw(st.sampled_from(["out", "double", "swap", "time", "fact", "column", "machines", "other"])):
            case "out":
                del rows[k]
                if not rows:
                    break
            case "double":
                rows.insert(draw(st.integers(k, len(rows))), rows[k])
            case "swap":
                other = draw(st.integers(0, len(rows) - 1))
                rows[k], rows[other] = rows[other], rows[k]
            case "time":
                rows[k] = time_s + draw(st.sampled_from([-1.0, 0.5, 1.0])), fact, columns
            case "fact" if fact in (ENDED, PREEMPTED, LOST):
                rows[k] = time_s, draw(st.sampled_from([ENDED, PREEMPTED, LOST])), columns
            case "column":
                name = draw(st.sampled_from(["job", "run", "resource"]))
                if name in columns:
                    rows[k] = time_s, fact, {**columns, name: columns[name] + draw(st.sampled_from([-1, 1]))}
            case "machines" if fact is Fact.RUN_STARTED:
                machines = sorted({*columns["machines"], draw(st.integers(0, n))})
                rows[k] = time_s, fact, {**columns, "machines": machines}
            case "other":
                rows.insert(k, (time_s, draw(st.sampled_from(OTHERS)), {"detail": "why", "message": "why"}))
    return n, rows


def is_clean(facts: pl.DataFrame, n: int, chunk: int) -> bool:
    check = CleanTrace(n)
    for part in facts.iter_slices(chunk):
        check.add(part)
    return check.is_clean()


@settings(deadline=None, max_examples=up_to(1000))
@given(valid_traces(), st.integers(1, 50))
def test_a_valid_trace_is_clean_in_chunks_of_any_size(made: tuple[int, list[Row]], chunk: int) -> None:
    n, rows = made
    facts = trace(*rows)
    assert first_breach(facts, Capacity(n)) is None
    assert is_clean(facts, n, chunk)


@settings(deadline=None, max_examples=up_to(5000))
@given(spoilt_traces(), st.integers(1, 50))
def test_a_trace_that_breaks_an_invariant_is_not_clean(made: tuple[int, list[Row]], chunk: int) -> None:
    n, rows = made
    facts = trace(*rows)
    if is_clean(facts, n, chunk):
        assert first_breach(facts, Capacity(n)) is None


@settings(deadline=None, max_examples=up_to(100))
@given(spoilt_traces())
def test_a_long_trace_has_the_same_first_breach_as_a_short_one(made: tuple[int, list[Row]]) -> None:
    n, rows = made
    facts = trace(*rows)
    expected = first_breach(facts, Capacity(n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(invariants, "LONG", 1)
        assert first_breach(facts, Capacity(n)) == expected


def one_after_the_other(*jobs: int) -> list[Row]:
    rows: list[Row] = []
    for run, job in enumerate(jobs):
        rows += [
            (3.0 * run, Fact.JOB_ARRIVED, {"job": job, "job_class": "rigid", "user": "ann"}),
            (3.0 * run + 1, Fact.RUN_STARTED, {"job": job, "run": run, "resource": -1, "machines": [0]}),
            (3.0 * run + 2, Fact.RUN_ENDED, {"job": job, "run": run, "resource": -1}),
        ]
    return rows


@pytest.mark.parametrize("jobs", [(10**12,), (1, 2, 10**12), (10**12, 5, 7), (3, 2, 1, 3)])
def test_the_fast_check_remembers_only_jobs_that_are_not_over(jobs: tuple[int, ...]) -> None:
    assert is_clean(trace(*one_after_the_other(*jobs)), 1, 3)


def test_numbers_of_jobs_that_would_take_much_memory_are_left_to_the_sequential_check() -> None:
    rows = one_after_the_other(1, 10**12)
    assert first_breach(trace(*rows), Capacity(1)) is None
    assert not is_clean(trace(*rows), 1, 6)


@pytest.mark.parametrize(
    "text", [None, "", "0-", "-1", "1-0", "0,1", "0  1", "x", "0 0", "3", "99999999999999999999"]
)
def test_machines_that_cannot_be_read_are_not_clean(text: str | None) -> None:
    rows: list[Row] = [
        (0.0, Fact.JOB_ARRIVED, {"job": 1, "job_class": "rigid", "user": "ann"}),
        (1.0, Fact.RUN_STARTED, {"job": 1, "run": 0, "resource": -1, "machines": [0, 1]}),
        (2.0, Fact.RUN_ENDED, {"job": 1, "run": 0, "resource": -1}),
    ]
    facts = trace(*rows)
    assert is_clean(facts, 3, 3)
    assert not is_clean(facts.with_columns(machines=pl.Series([None, text, None], dtype=pl.String)), 3, 3)
