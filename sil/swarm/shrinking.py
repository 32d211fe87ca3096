"""A smaller case with the same violation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sil.swarm.case import CORES, Case, Machines
from sil.swarm.faults import Fault

MOST_TRIES = 1_000

PLAIN: Mapping[str, Any] = {
    "has_queues": False,
    "is_remapping": False,
    "keeps_starts": False,
    "raised_after": None,
    "least_gain_s": 0.0,
}
"""The policies of a case that has none."""


def shrunk(case: Case, violates: Callable[[Case], bool]) -> Case:
    """The smallest case found by leaving out faults, jobs, policies and machines one by one, as long as
    `violates` holds; it is called at most MOST_TRIES times."""
    tries = 0
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for candidate in _smaller(case):
            tries += 1
            if tries > MOST_TRIES:
                return case
            if violates(candidate):
                case, is_smaller = candidate, True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Cases with less of something, the largest steps first."""
    for k in range(len(case.faults)):
        yield replace(case, faults=case.faults[:k] + case.faults[k + 1 :])
    n = len(case.jobs)
    size = n // 2
    while size:
        for first in range(0, n, size):
            jobs = case.jobs[:first] + case.jobs[first + size :]
            if jobs:
                yield replace(case, jobs=jobs)
        size //= 2
    for policy, plain in PLAIN.items():
        if getattr(case, policy) != plain:
            yield replace(case, **{policy: plain})
    if case.n_machines > 1 and case.longest_wait_s is None:  # with fewer, jobs may wait longer
        yield _with_one_machine_less(case)
    for k, job in enumerate(case.jobs):
        if job.size > 1:
            jobs = (*case.jobs[:k], replace(job, size=1), *case.jobs[k + 1 :])
            yield replace(case, jobs=jobs)


def _with_one_machine_less(case: Case) -> Case:
    n = case.n_machines - 1
    largest = CORES * n if case.machines is Machines.NODES else n
    jobs = tuple(replace(job, size=min(job.size, largest)) for job in case.jobs)
    return replace(case, n_machines=n, jobs=jobs, faults=tuple(_on_first(fault, n) for fault in case.faults))


def _on_first(fault: Fault, n_machines: int) -> Fault:
    if "machines" not in fault.parameters:
        return fault
    there = [machine for machine in fault.parameters["machines"] if machine < n_machines]
    return replace(fault, parameters={**fault.parameters, "machines": there or [0]})
