"""The fast check of traces against the sequential one, on traces that are valid, odd or broken."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Share
from scheduler.node_request import Gpus, Node, Request
from sil.outcome.invariants import checker
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.outcome.invariants.clean_trace import CleanTrace
from sil.trace import held
from sil.trace.facts import Fact, FactColumns
from sil.trace.recorder import ROW
from sil.world.node_usage import NodeUsage
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


NODES = (
    *[Node(cores=4, memory_mib=100, gpus=("A", "A", "B"), features=frozenset({"ib"}))] * 2,
    Node(cores=2, memory_mib=60, others={"disk": 3}, partitions=frozenset({"p"})),
    Node(cores=8, gpus=("B",), partitions=frozenset({"p", "q"})),
)
LICENCES = {"matlab": 2, "unused": 1}

requests = st.builds(
    Request,
    chunks=st.integers(1, 3),
    cores=st.sampled_from([0.5, 1.0, 2.0]),
    memory_mib=st.sampled_from([0, 0, 20]),
    gpus=st.sampled_from([None, None, Gpus(), Gpus(2), Gpus(1, 0.4), Gpus(1, 1.0, frozenset({"B"}))]),
    others=st.sampled_from([{}, {}, {"disk": 1}]),
    most_on_node=st.sampled_from([1, 2, None]),
    exclusive=st.sampled_from([False, False, False, True]),
    features=st.sampled_from([frozenset(), frozenset({"ib"})]),
    partitions=st.sampled_from([frozenset(), frozenset({"p", "q"})]),
    site_resources=st.sampled_from([{}, {"matlab": 1}]),
)


class SharedNodes(Machine):
    """Runs use parts of NODES: of some random uses, one that the plain count allows."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw, len(NODES))
        self.usage = NodeUsage(NODES, LICENCES)
        self.requested: dict[int, Request] = {}
        self.used: dict[int, tuple[Request, list[Share]]] = {}

    def arrives(self) -> None:
        super().arrives()
        request = self.draw(requests)
        self.requested[self.n_jobs - 1] = request
        self.rows[-1][2]["request"] = request

    def starts(self) -> None:
        if not self.waiting:
            return
        job = self.draw(st.sampled_from(self.waiting))
        request, shares = self.requested[job], list[Share]()
        for node in self.draw(st.permutations(sorted(set(range(self.n)) - self.down))):
            left = request.chunks - sum(share.chunks for share in shares)
            most = min(left, request.chunks_on(NODES[node]))
            chunks = self.draw(st.integers(min(1, most), most))
            count = 0 if request.gpus is None or request.exclusive else chunks * request.gpus.count
            has = range(len(NODES[node].gpus))
            if not chunks or count > len(has):
                continue
            gpus = tuple(self.draw(st.permutations(has))[:count])
            shares.append(Share(node, chunks, gpus))
        if self.usage.why_not(request, shares) is None:
            self.waiting.remove(job)
            self.usage.take(request, shares)
            nodes = sorted(share.node for share in shares)
            columns = {"job": job, "run": self.n_runs, "resource": -1, "machines": nodes, "shares": shares}
            self.rows.append(self.row(Fact.RUN_STARTED, **columns))
            self.running[self.n_runs] = job, self.time_s, nodes
            self.used[self.n_runs] = request, shares
            self.n_runs += 1

    def ends(self, fact: Fact = ENDED) -> None:
        before = set(self.running)
        super().ends(fact)
        for run in before - set(self.running):
            self.usage.give_back(*self.used[run])

    def finished(self) -> list[Row]:
        """Jobs that still wait are refused."""
        while self.running:
            self.passes()
            self.ends()
        while self.waiting:
            self.is_refused()
        self.passes()
        return self.rows


STEPS = [
    *map(methodcaller, ["arrives", "starts", "starts", "ends", "passes"] * 3),
    methodcaller("ends", PREEMPTED),
    methodcaller("ends", LOST),
    methodcaller("is_refused"),
    methodcaller("changes"),
]
SIZES = st.sampled_from([1, 3, 5, 64, 65, 130])


def rows_of(machine: Machine) -> list[Row]:
    for step in machine.draw(st.lists(st.sampled_from(STEPS), max_size=40)):
        step(machine)
    machine.rows += [machine.row(Fact.MACHINE_UP, resource=node) for node in sorted(machine.down)]
    machine.down.clear()
    return machine.finished()


@st.composite
def valid_traces(draw: st.DrawFn) -> tuple[Capacity, list[Row]]:
    """Those of machines that hold one run each, and of nodes of which runs use parts."""
    if draw(st.booleans()):
        return Capacity(len(NODES), nodes=NODES, site_resources=LICENCES), rows_of(SharedNodes(draw))
    machine = Machine(draw, draw(SIZES))
    return Capacity(machine.n), rows_of(machine)


KINDS_OF_CHANGES = "out", "double", "swap", "time", "fact", "column", "machines", "request", "use", "other"


def changed(share: Share) -> st.SearchStrategy[Share]:
    node, chunks, gpus = share
    others = st.lists(st.integers(0, 3), max_size=len(gpus) + 1).map(tuple)
    return st.one_of(
        st.just(share),
        st.builds(Share, st.integers(0, len(NODES)), st.just(chunks), st.just(gpus)),
        st.builds(Share, st.just(node), st.integers(0, chunks + 1), st.just(gpus)),
        st.builds(Share, st.just(node), st.just(chunks), others),
    )


@st.composite
def spoilt_traces(draw: st.DrawFn) -> tuple[Capacity, list[Row]]:
    """Some rows are left out, doubled, moved, or have another time, job, run, machines, request or use."""
    capacity, rows = draw(valid_traces())
    n = capacity.n_machines
    for _ in range(draw(st.integers(1, 3)) if rows else 0):
        k = draw(st.integers(0, len(rows) - 1))
        time_s, fact, columns = rows[k]
        match draw(st.sampled_from(KINDS_OF_CHANGES)):
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
                    changed_to = columns[name] + draw(st.sampled_from([-1, 1]))
                    if changed_to >= 0 or fact not in (Fact.MACHINE_DOWN, Fact.MACHINE_UP):  # which has one
                        rows[k] = time_s, fact, {**columns, name: changed_to}
            case "machines" if fact is Fact.RUN_STARTED:
                machines = sorted({*columns["machines"], draw(st.integers(0, n))})
                rows[k] = time_s, fact, {**columns, "machines": machines}
            case "request" if fact is Fact.JOB_ARRIVED and capacity.nodes:
                rows[k] = time_s, fact, {**columns, "request": draw(requests)}
            case "use" if fact is Fact.RUN_STARTED and capacity.nodes:
                rows[k] = time_s, fact, {**columns, "shares": [*map(draw, map(changed, columns["shares"]))]}
            case "other":
                rows.insert(k, (time_s, draw(st.sampled_from(OTHERS)), {"detail": "why", "message": "why"}))
    return capacity, rows


def is_clean(facts: pl.DataFrame, capacity: Capacity, chunk: int) -> bool:
    check = CleanTrace(capacity.n_machines, capacity.nodes, capacity.site_resources)
    for part in facts.iter_slices(chunk):
        check.add(FactColumns(part.select(ROW)))
    return check.is_clean()


@settings(deadline=None, max_examples=up_to(1000, 10))
@given(valid_traces(), st.integers(1, 50))
def test_a_valid_trace_is_clean_in_chunks_of_any_size(made: tuple[Capacity, list[Row]], chunk: int) -> None:
    capacity, rows = made
    facts = trace(*rows)
    assert first_violation(facts, capacity) is None
    assert is_clean(facts, capacity, chunk)


@settings(deadline=None, max_examples=up_to(5000, 40))
@given(spoilt_traces(), st.integers(1, 50))
def test_a_trace_that_breaks_an_invariant_is_not_clean(made: tuple[Capacity, list[Row]], chunk: int) -> None:
    capacity, rows = made
    facts = trace(*rows)
    if is_clean(facts, capacity, chunk):
        assert first_violation(facts, capacity) is None


@settings(deadline=None, max_examples=up_to(100))
@given(spoilt_traces())
def test_a_long_trace_has_the_same_first_violation_as_a_short_one(made: tuple[Capacity, list[Row]]) -> None:
    capacity, rows = made
    facts = trace(*rows)
    expected = first_violation(facts, capacity)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checker, "LONG", 1)
        assert first_violation(facts, capacity) == expected


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
    assert is_clean(trace(*one_after_the_other(*jobs)), Capacity(1), 3)


def test_numbers_of_jobs_that_would_take_much_memory_are_left_to_the_sequential_check() -> None:
    rows = one_after_the_other(1, 10**12)
    assert first_violation(trace(*rows), Capacity(1)) is None
    assert not is_clean(trace(*rows), Capacity(1), 6)


def with_start_that_holds(facts: pl.DataFrame, name: str, cell: Any) -> pl.DataFrame:
    """Of three facts, of which the second is the start."""
    return facts.with_columns(held.column(name, [None, cell, None]))


LARGEST = 2**31 - 1


def one_run(start: dict[str, Any], **arrival: Any) -> pl.DataFrame:
    """Three facts, of which the second is the start."""
    of_run = {"job": 1, "run": 0, "resource": -1}
    return trace(
        (0.0, Fact.JOB_ARRIVED, {"job": 1, "job_class": "rigid", "user": "ann", **arrival}),
        (1.0, Fact.RUN_STARTED, {**of_run, **start}),
        (2.0, Fact.RUN_ENDED, of_run),
    )


@pytest.mark.parametrize(
    "machines", [None, [], [(-1, 0)], [(1, 0)], [(0, 0), (0, 0)], [(3, 3)], [(0, LARGEST)]]
)
def test_machines_that_there_are_not_or_named_twice_are_not_clean(machines: Any) -> None:
    facts = one_run({"machines": [0, 1]})
    assert is_clean(facts, Capacity(3), 3)
    assert not is_clean(with_start_that_holds(facts, "machines", machines), Capacity(3), 3)


@pytest.mark.parametrize(
    "shares",
    [
        *[None, [], [(0, 1, [])], [(0, 2, [])], [(0, 0, [])], [(0, 2, [0])], [(0, -1, [0])]],
        *([(0, 1, gpus)] for gpus in ([2], [5], [0, 1], [62])),
        *[[(0, 1, [0]), (1, 0, [])], [(2, 1, [0])], [(0, 1, [0]), (0, 1, [1])]],
        *[[(-1, 1, [0])], [(LARGEST, 1, [0])], [(0, LARGEST, [0])]],
    ],
)
def test_shares_of_nodes_that_are_not_requested_are_not_clean(shares: Any) -> None:
    request = Request(gpus=Gpus(types=frozenset({"A"})))
    facts = one_run({"machines": [0], "shares": [Share(0, 1, (1,))]}, request=request)
    capacity = Capacity(len(NODES), nodes=NODES)
    assert is_clean(facts, capacity, 3)
    assert not is_clean(with_start_that_holds(facts, "shares", shares), capacity, 3)


WHOLE = Request(cores=1, exclusive=True)
Run = tuple[Request, Share]

LAST_TOO_MANY: dict[str, list[Run]] = {
    "cores": [(Request(cores=2), Share(2, 1)), (Request(cores=0.5), Share(2, 1))],
    "memory": [(Request(memory_mib=60), Share(2, 1)), (Request(memory_mib=1), Share(2, 1))],
    "another resource of nodes": [(Request(others={"disk": 2}), Share(2, 1))] * 2,
    "a GPU": [(Request(gpus=Gpus()), Share(0, 1, (0,)))] * 2,
    "parts of a GPU": [(Request(gpus=Gpus(share=0.4)), Share(0, 1, (0,)))] * 3,
    "one part of a GPU twice": [(Request(2, gpus=Gpus(share=0.4), most_on_node=2), Share(0, 2, (0, 0)))],
    "a GPU of another type": [(Request(gpus=Gpus(types=frozenset("B"))), Share(0, 1, (0,)))],
    "an exclusive job on a used node": [(Request(), Share(3, 1)), (WHOLE, Share(3, 1))],
    "a job on a node of an exclusive one": [(WHOLE, Share(3, 1)), (Request(), Share(3, 1))],
    "a resource of the site": [(Request(site_resources={"matlab": 1}), Share(3, 1))] * 3,
    "a resource that the site lacks": [(Request(site_resources={"maple": 1}), Share(3, 1))],
    "a feature": [(Request(features=frozenset({"ib"})), Share(3, 1))],
    "a partition": [(Request(partitions=frozenset({"q"})), Share(2, 1))],
    "chunks on one node": [(Request(2, most_on_node=1), Share(3, 2))],
    "chunks that it did not request": [(Request(1, most_on_node=2), Share(3, 2))],
    "fewer chunks than requested": [(Request(2, most_on_node=2), Share(3, 1))],
}


def at_once(*runs: Run) -> list[Row]:
    """All start at 1 s, and again at 3 s, after the first ones ended."""
    rows: list[Row] = []
    for job, (request, _) in enumerate(runs):
        rows.append(
            (0.0, Fact.JOB_ARRIVED, {"job": job, "job_class": "rigid", "user": "ann", "request": request})
        )
    for attempt, (since_s, fact) in enumerate([(1.0, PREEMPTED), (3.0, ENDED)]):
        for job, (_, share) in enumerate(runs):
            started = {"job": job, "run": attempt * len(runs) + job, "resource": -1}
            rows.append((since_s, Fact.RUN_STARTED, {**started, "machines": [share.node], "shares": [share]}))
        over = ({"job": job, "run": attempt * len(runs) + job, "resource": -1} for job in range(len(runs)))
        rows += [(since_s + 1, fact, columns) for columns in over]
    return rows


@pytest.mark.parametrize("what", LAST_TOO_MANY)
def test_the_last_run_that_nodes_cannot_hold_is_not_clean(what: str) -> None:
    runs, capacity = LAST_TOO_MANY[what], Capacity(len(NODES), nodes=NODES, site_resources=LICENCES)
    for n_runs in range(1, len(runs) + 1):
        facts, can_hold = trace(*at_once(*runs[:n_runs])), n_runs < len(runs)
        assert (first_violation(facts, capacity) is None) == can_hold
        assert is_clean(facts, capacity, 3) == can_hold


def test_a_run_on_a_node_that_is_down_is_not_clean() -> None:
    rows, capacity = at_once((Request(), Share(3, 1))), Capacity(len(NODES), nodes=NODES)
    for node, can_hold in ((2, True), (3, False)):
        facts = trace((0.0, Fact.MACHINE_DOWN, {"resource": node}), *rows)
        assert is_clean(facts, capacity, 3) == can_hold


def test_a_run_that_uses_nothing_of_one_of_its_nodes_is_not_clean() -> None:
    arrival, start, _, _, end = at_once((Request(), Share(3, 1)))
    once = arrival, start, (2.0, ENDED, {**end[2], "run": start[2]["run"]})
    facts, capacity = trace(*once), Capacity(len(NODES), nodes=NODES)
    assert is_clean(facts, capacity, 3)
    assert not is_clean(with_start_that_holds(facts, "machines", [(2, 3)]), capacity, 3)


def test_a_node_is_whole_again_after_runs_with_several_chunks() -> None:
    capacity = Capacity(len(NODES), nodes=NODES)
    rows = at_once((Request(2, most_on_node=2), Share(3, 2)))
    later = [
        (time_s + 10, fact, {**x, "job": 9, "run": x.get("run", 0) + 9})
        for time_s, fact, x in at_once((WHOLE, Share(3, 1)))
    ]
    assert is_clean(trace(*rows, *later), capacity, 3)
