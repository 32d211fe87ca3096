"""The contract suite, run on a scheduler by its name: in a process of its own, which it may take down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from scheduler import registry
from scheduler.contract import Contract, broken_rules, mapping_contract
from scheduler.mapping.rules import (
    COMPLETION_AS_EXPECTED,
    EACH_JOB_ONCE,
    KNOWN_JOB,
    NO_JOB_FORGOTTEN,
    RETURNS_A_SCHEDULE,
    RETURNS_IN_TIME,
    RULES_OF_A_SCHEDULE,
    RULES_OF_CONDUCT,
    RULES_OF_PLACEMENTS,
)
from scheduler.model import Schedule
from scheduler.problem import NoSuchView, SchedulingProblem
from scheduler.registry import Kind
from sil.workers.processes import lead_own_group, worker_context
from sil.workers.watchdog import LOOK_EVERY_S, Watchdog
from sil.world.guard.faults import PROCESS_SURVIVES
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit

OF_NODES = (RETURNS_A_SCHEDULE, KNOWN_JOB, EACH_JOB_ONCE, NO_JOB_FORGOTTEN, COMPLETION_AS_EXPECTED)


class Finding(NamedTuple):
    """A rule that a scheduler breaks; `asked` are the smallest problems on which it does, in order."""

    rule: str
    message: str
    asked: tuple[str, ...] = ()


ENDS_THE_SEARCH = (RETURNS_IN_TIME, PROCESS_SURVIVES)
"""Of the rules that were not found to be broken before, nothing is known then."""


def rules_for(kind: Kind) -> dict[str, str]:
    """The rules that schedulers of a kind keep, each with what it says."""
    if kind is Kind.MAPPING:
        of_a_schedule = RULES_OF_A_SCHEDULE
    else:
        of_a_schedule = {rule: RULES_OF_A_SCHEDULE[rule] for rule in OF_NODES} | RULES_OF_PLACEMENTS
    survives = {PROCESS_SURVIVES: "its process does not die, nor has to be ended"}
    return {**of_a_schedule, **RULES_OF_CONDUCT, **survives}


def kind_under_check(name: str) -> Kind:
    """What a scheduler decides about, found out by asking it. Raises SchedulerNotLoaded."""
    factory = registry.load(name)
    known = registry.kind_of(name)
    if known is not None:
        return known
    views = {"shared_nodes": Kind.SHARED_NODES, "free_nodes": Kind.FREE_NODES}
    with suppress(Exception, TimeLimitExceeded):
        try:
            with time_limit(1.0):
                factory().schedule(SchedulingProblem.from_matrix([[1.0, 2.0]]))
        except NoSuchView as error:
            return views[error.needs]
    return Kind.MAPPING


def check(name: str, kind: Kind | None, examples: int, limit_s: float) -> tuple[Kind, list[Finding]]:
    """What a scheduler decides about, and the rules that it breaks; a decision may take `limit_s`.

    Where `kind` does not say, it is found out by asking; one that takes its process with it then is taken to
    map jobs. Raises SchedulerNotLoaded.
    """
    registry.load(name)
    context = worker_context()
    watchdog = Watchdog(context, 1)
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_check_here, args=(name, kind, examples, limit_s, tell, watchdog))
    process.start()
    tell.close()
    found: list[Finding] = []
    try:
        while (news := _next(told, process, watchdog)) is not None:
            if isinstance(news, Kind):
                kind = news
                continue
            found.append(news)
            if news.rule == PROCESS_SURVIVES:
                break
        process.join()
    finally:
        watchdog.end_all()
    return kind or Kind.MAPPING, found


def _next(told: Connection, process: BaseProcess, watchdog: Watchdog) -> Kind | Finding | None:
    """What the process tells next: the kind, then findings; None once there are no more."""
    while True:
        ended = not process.is_alive()
        try:
            if told.poll(0.0 if ended else LOOK_EVERY_S):
                news: Kind | Finding | None = told.recv()
                return news
        except EOFError:
            ended = True
        if ended:
            return Finding(PROCESS_SURVIVES, "its process died, or had to be ended")
        watchdog.end_the_lost()


def _check_here(
    name: str, kind: Kind | None, examples: int, limit_s: float, tell: Connection, watchdog: Watchdog
) -> None:
    lead_own_group()
    watchdog.watch_this_process()
    kind = kind or kind_under_check(name)
    tell.send(kind)
    for finding in _findings(name, kind, examples, limit_s):
        tell.send(finding)
    tell.send(None)


def _findings(name: str, kind: Kind, examples: int, limit_s: float) -> Iterator[Finding]:
    here = os.getpid()

    def within_the_limit(call: Callable[[], Schedule]) -> Schedule:
        try:
            with time_limit(limit_s):
                schedule = call()
            if os.getpid() != here:
                os._exit(0)  # the scheduler forked: one of us is enough
            return schedule
        except TimeLimitExceeded:
            raise TimeoutError(f"{limit_s:g} s were allowed") from None

    for broken in broken_rules(registry.load(name), _contract(kind), examples, within_the_limit):
        yield Finding(broken.rule, broken.message, tuple(map(str, broken.problems)))


def _contract(kind: Kind) -> Contract:
    from scheduler.free_nodes.contract import free_node_contract
    from scheduler.time_shared.contract import node_contract

    contracts = {
        Kind.MAPPING: mapping_contract,
        Kind.SHARED_NODES: node_contract,
        Kind.FREE_NODES: free_node_contract,
    }
    return contracts[kind]()
