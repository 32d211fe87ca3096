"""Schedulers under test that let a job wait for too long, and others that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sil.runs.under_test import UnderTest, resolve
from sil.swarm.campaign import STREAMS, Swarm
from sil.swarm.case import SiteKind, stream
from sil.swarm.simulation import STARTS_IN_TIME, verdict_on

pytestmark = pytest.mark.usefixtures("in_this_process")

IN_ORDER = """
from scheduler.free_nodes.consumable_problem import Placer

class Fair:
    kind = "free-nodes"
    skips = False
    def schedule(self, problem):
        placer, jobs = Placer(problem), problem.jobs
        for i in sorted(range(problem.n_jobs), key=lambda i: self.key(jobs[i])):
            if self.waits(i, problem):
                continue
            if placer.fits(i):
                placer.start(i)
            elif not self.skips:
                break
        return placer.schedule("others go first")
    def key(self, job):
        return job.arrival_s, job.id
    def waits(self, i, problem):
        return False

class Shortest(Fair):
    def key(self, job):
        return job.estimate_s, job.arrival_s, job.id

class LargeLast(Fair):
    def key(self, job):
        return job.n_tasks > 1, job.arrival_s, job.id

class Skips(Fair):
    skips = True

class NewestFirst(Fair):
    def key(self, job):
        return -job.arrival_s, -job.id

class OddLast(Fair):
    def key(self, job):
        return job.id % 2, job.arrival_s, job.id

class EvenLast(Fair):
    def key(self, job):
        return -(job.id % 2), job.arrival_s, job.id

class LastOfAll(Fair):
    def waits(self, i, problem):
        return i == problem.n_jobs - 1 and bool(problem.running)

class OddAlone(Fair):
    def waits(self, i, problem):
        return problem.jobs[i].id % 2 and bool(problem.running)
"""


@pytest.fixture
def named(importable: Path) -> str:
    (importable / "orders_of_service.py").write_text(IN_ORDER)
    return "orders_of_service"


def _rules(tested: UnderTest) -> Iterator[str | None]:
    """What is broken in each stream of jobs among sixty seeds."""
    swarm = Swarm(tested)
    for seed in range(STREAMS - 1, 60, STREAMS):
        violation = swarm.verdict(swarm.case(seed)).violation
        yield violation and violation.rule


@pytest.mark.parametrize(
    "unfair", ["LargeLast", "Skips", "NewestFirst", "OddLast", "EvenLast", "LastOfAll", "OddAlone"]
)
def test_a_scheduler_that_passes_over_a_job_is_found_within_sixty_seeds(named: str, unfair: str) -> None:
    assert STARTS_IN_TIME in _rules(resolve(f"{named}:{unfair}"))


@pytest.mark.parametrize("fair", ["Fair", "Shortest"])
def test_a_scheduler_whose_jobs_wait_for_earlier_or_shorter_ones_is_fair(named: str, fair: str) -> None:
    assert [*filter(None, _rules(resolve(f"{named}:{fair}")))] == []


@pytest.mark.parametrize("name", ["fcfs", "sjf", "easy", "easy_sjbf", "conservative"])
def test_the_bound_holds_for_all_schedulers_that_are_built_in(name: str) -> None:
    for machines in (SiteKind.PROCESSORS, SiteKind.NODES):
        assert verdict_on(stream(7, machines, name)).violation is None
