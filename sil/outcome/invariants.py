"""Checkers that watch from outside: what must hold in every trace, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from scheduler.model import JobId, Site
from sil.outcome.trace import Fact

NO_JOB_LOST = "no-job-lost"
NO_JOB_RUN_TWICE = "no-job-run-twice"
NO_MACHINE_DOUBLE_BOOKED = "no-machine-double-booked"
NO_CLUSTER_WHILE_MEMBER_BUSY = "no-cluster-while-member-busy"
NOTHING_ON_A_MACHINE_THAT_IS_DOWN = "nothing-on-a-machine-that-is-down"
TIME_NEVER_GOES_BACK = "time-never-goes-back"

_ENDS = {Fact.RUN_ENDED, Fact.RUN_PREEMPTED, Fact.RUN_LOST}


@dataclass(frozen=True, slots=True)
class Breach:
    rule: str
    job: JobId | None
    message: str


def first_breach(facts: pl.DataFrame, site: Site) -> Breach | None:
    """The first invariant that the facts of one run break, or None. One pass over the trace.

    A run that ended in a fault may leave jobs unfinished; all else must hold up to there.
    """
    return next(_breaches(facts, site), None)


def _breaches(facts: pl.DataFrame, site: Site) -> Iterator[Breach]:
    columns = facts.select("time_s", "event", "job", "run", "resource", "machines")
    holder: dict[int, int] = {}
    held: dict[int, tuple[int, list[int]]] = {}
    down: set[int] = set()
    waiting: set[int] = set()
    running: dict[int, int] = {}
    done: set[int] = set()
    faulted = False
    now_s = 0.0
    for time_s, name, job, run, resource, machines in columns.iter_rows():
        fact = Fact(name)
        if time_s < now_s:
            yield Breach(TIME_NEVER_GOES_BACK, job, f"{fact} at {time_s:g} s follows on {now_s:g} s")
        now_s = time_s
        if fact is Fact.JOB_ARRIVED:
            waiting.add(job)
        elif fact is Fact.JOB_REFUSED:
            waiting.discard(job)
        elif fact is Fact.MACHINE_DOWN:
            down.add(resource)
            if resource in holder:
                # The notice of the lost run follows on that of the machine, at the same instant.
                continue
        elif fact is Fact.MACHINE_UP:
            down.discard(resource)
        elif fact is Fact.RUN_STARTED:
            if job in done or job in running:
                yield Breach(NO_JOB_RUN_TWICE, job, f"job {job} is started again at {time_s:g} s")
            on_cluster = resource >= site.n_machines
            for j in machines:
                machine = site.machines[j].name
                if j in holder:
                    rule = NO_CLUSTER_WHILE_MEMBER_BUSY if on_cluster else NO_MACHINE_DOUBLE_BOOKED
                    other = held[holder[j]][0]
                    yield Breach(
                        rule, job, f"job {job} starts at {time_s:g} s on {machine}, where job {other} is"
                    )
                if j in down:
                    sentence = f"job {job} starts at {time_s:g} s on {machine}, which is down"
                    yield Breach(NOTHING_ON_A_MACHINE_THAT_IS_DOWN, job, sentence)
                holder[j] = run
            held[run] = (job, machines)
            running[job] = run
            waiting.discard(job)
        elif fact in _ENDS:
            _, freed = held.pop(run, (job, []))
            for j in freed:
                holder.pop(j, None)
            running.pop(job, None)
            (done if fact is Fact.RUN_ENDED else waiting).add(job)
        elif fact is Fact.FAULT:
            faulted = True
    if not faulted:
        for job in sorted(waiting | set(running)):
            yield Breach(NO_JOB_LOST, JobId(job), f"job {job} arrived, was not refused and never ended")
