"""What must hold in every trace of shared nodes, whoever wrote it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import polars as pl

from scheduler.model import JobId
from scheduler.node_set import NodeSet
from sil.outcome.invariants import (
    NO_JOB_LOST,
    NO_JOB_RUN_TWICE,
    TIME_NEVER_GOES_BACK,
    WHAT_IS_OVER_IS_OVER,
    Breach,
)
from sil.trace.facts import Fact

MPL_WITHIN_LIMIT = "mpl-within-limit"


def first_breach_on_nodes(facts: pl.DataFrame, most_jobs: int) -> Breach | None:
    """The first invariant that the facts of one run break, or None. One pass over the trace."""
    return next(_breaches(facts, most_jobs), None)


def _breaches(facts: pl.DataFrame, most_jobs: int) -> Iterator[Breach]:
    on_node: Counter[int] = Counter()
    nodes_of: dict[int, NodeSet] = {}
    run_of: dict[int, int | None] = {}
    before_s, faulted = 0.0, False
    for time_s, event, job, run, nodes in facts.select(
        "time_s", "event", "job", "run", "machines"
    ).iter_rows():
        if event == Fact.FAULT:
            faulted = True
            continue
        if time_s < before_s:
            yield Breach(TIME_NEVER_GOES_BACK, None, f"{event} at {time_s:.12g} s, after {before_s:.12g} s")
        before_s = time_s
        match event:
            case Fact.JOB_ARRIVED:
                run_of[job] = None
            case Fact.JOB_REFUSED:
                del run_of[job]
            case Fact.RUN_STARTED:
                if run_of.get(job, run) is not None:
                    message = f"job {job} starts at {time_s:.12g} s, but runs or has ended"
                    yield Breach(NO_JOB_RUN_TWICE, JobId(job), message)
                run_of[job], nodes_of[run] = run, NodeSet.parse(nodes)
                on_node.update(nodes_of[run])
                for n in nodes_of[run]:
                    if on_node[n] > most_jobs:
                        message = (
                            f"job {job} starts at {time_s:.12g} s on node {n}, which then has "
                            f"{on_node[n]} parallel tasks; {most_jobs} are allowed"
                        )
                        yield Breach(MPL_WITHIN_LIMIT, JobId(job), message)
            case Fact.RUN_ENDED | Fact.RUN_PREEMPTED | Fact.RUN_LOST:
                if run not in nodes_of:
                    message = f"run {run} of job {job} is over at {time_s:.12g} s, but was not running"
                    yield Breach(WHAT_IS_OVER_IS_OVER, JobId(job), message)
                    continue
                on_node.subtract(nodes_of.pop(run))
                if event == Fact.RUN_ENDED:
                    del run_of[job]
                else:
                    run_of[job] = None
    if not faulted and run_of:
        job = min(run_of)
        yield Breach(NO_JOB_LOST, JobId(job), f"job {job} arrived, was not refused and never ended")
