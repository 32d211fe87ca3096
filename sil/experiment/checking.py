"""The contract suite, run on a scheduler by its name: in a process of its own, which it may take down."""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from scheduler.contract import CONTRACTS
from scheduler.examination import Examination
from scheduler.kinds import Kind
from scheduler.model import Answer
from scheduler.registry import SchedulerSpec, resolve
from scheduler.rules import RETURNS_IN_TIME, RULES_OF
from sil.workers.processes import lead_own_group, worker_context
from sil.workers.watchdog import LOOK_EVERY_S, Watchdog
from sil.world.guard.faults import PROCESS_SURVIVES
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit


class Finding(NamedTuple):
    """A rule that a scheduler breaks; `asked` are the smallest problems on which it does, in order."""

    rule: str
    message: str
    asked: tuple[str, ...] = ()


ENDS_THE_SEARCH = (RETURNS_IN_TIME, PROCESS_SURVIVES)
"""Of the rules that were not found to be broken before, nothing is known then."""


class Checked(NamedTuple):
    """The rules that a scheduler of a kind breaks, and those that some of its answers put to the test."""

    kind: Kind
    findings: list[Finding]
    exercised: frozenset[str]

    @property
    def verdicts(self) -> dict[str, str]:
        """For each rule: broken, holds, not exercised, or not known."""
        broken = {finding.rule for finding in self.findings}
        ended_early = bool(broken & set(ENDS_THE_SEARCH))

        def verdict(rule: str) -> str:
            if rule in broken:
                return "broken"
            if ended_early:
                return "not known"
            return "holds" if rule in self.exercised else "not exercised"

        return {rule: verdict(rule) for rule in rules_for(self.kind)}


def rules_for(kind: Kind) -> dict[str, str]:
    """The rules for schedulers of a kind, with one sentence each."""
    return RULES_OF[kind] | {PROCESS_SURVIVES: "its process does not die, nor has to be killed"}


def check(name: str, kind: Kind | None, examples: int, limit_s: float) -> Checked:
    """Examine a scheduler of `kind` (else of its declared kind, else for mapping); a decision may take
    `limit_s`. Raises SchedulerNotLoaded, also where it declares another kind than `kind`.
    """
    spec = resolve(name)
    if kind is not None:
        spec.require(kind, f"--kind {kind}")
    kind = kind or spec.kind or Kind.MAPPING
    context = worker_context()
    watchdog = Watchdog(context, 1)
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_check_here, args=(spec, kind, examples, limit_s, tell, watchdog))
    process.start()
    tell.close()
    found: list[Finding] = []
    exercised = frozenset[str]()
    try:
        while isinstance(news := _next(told, process, watchdog), Finding):
            found.append(news)
            if news.rule == PROCESS_SURVIVES:
                break
        else:
            exercised = news | {PROCESS_SURVIVES}
        process.join()
    finally:
        watchdog.end_all()
    return Checked(kind, found, exercised)


def _next(told: Connection, process: BaseProcess, watchdog: Watchdog) -> Finding | frozenset[str]:
    """The next message of the process: a finding, or at the end the rules that were exercised."""
    while True:
        ended = not process.is_alive()
        try:
            if told.poll(0.0 if ended else LOOK_EVERY_S):
                news: Finding | frozenset[str] = told.recv()
                return news
        except EOFError:
            ended = True
        if ended:
            return Finding(PROCESS_SURVIVES, "its process died, or had to be ended")
        watchdog.end_the_lost()


def _check_here(
    spec: SchedulerSpec, kind: Kind, examples: int, limit_s: float, tell: Connection, watchdog: Watchdog
) -> None:
    lead_own_group()
    watchdog.watch_this_process()
    here = os.getpid()

    def within_the_limit(call: Callable[[], Answer]) -> Answer:
        try:
            with time_limit(limit_s):
                schedule = call()
            if os.getpid() != here:
                os._exit(0)  # the scheduler forked: one of us is enough
            return schedule
        except TimeLimitExceeded:
            raise TimeoutError(f"{limit_s:g} s were allowed") from None

    examination = Examination(spec.factory(), CONTRACTS[kind](), examples, within_the_limit)
    for broken in examination.broken_rules():
        tell.send(Finding(broken.rule, broken.message, tuple(map(str, broken.problems))))
    tell.send(frozenset(examination.exercised))
