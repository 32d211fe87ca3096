"""The contract suite, run on a scheduler by its name in a worker process, which it may kill."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from scheduler.contract import contract_for
from scheduler.contract_examination import Contract, Examination
from scheduler.kinds import Kind
from scheduler.model import Answer
from scheduler.registry import SchedulerSpec, resolve
from scheduler.rules import RETURNS_IN_TIME, RULES_OF
from sil.workers.executor import Died, Item, send_report
from sil.workers.processes import Processes
from sil.world.guard.faults import PROCESS_SURVIVES
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit


class Finding(NamedTuple):
    """A rule that a scheduler breaks; `asked` are the smallest problems on which it does, in order."""

    rule: str
    message: str
    asked: tuple[str, ...] = ()


ENDS_THE_SEARCH = (RETURNS_IN_TIME, PROCESS_SURVIVES)
"""When one of these is broken, nothing is known of the rules not checked before."""


class Checked(NamedTuple):
    """The rules that a scheduler of a kind breaks, and those that some of its answers exercised."""

    kind: Kind
    findings: list[Finding]
    exercised: frozenset[str]

    @property
    def verdicts(self) -> dict[str, str]:
        """For each rule: broken, holds, not exercised, or not known."""
        broken = {finding.rule for finding in self.findings}
        rules = rules_for(self.kind)
        if broken.isdisjoint(ENDS_THE_SEARCH):
            verdicts = {rule: "holds" if rule in self.exercised else "not exercised" for rule in rules}
        else:
            verdicts = dict.fromkeys(rules, "not known")
        return {rule: "broken" if rule in broken else verdict for rule, verdict in verdicts.items()}


def rules_for(kind: Kind) -> dict[str, str]:
    """The rules for schedulers of a kind, with one sentence each."""
    return RULES_OF[kind] | {PROCESS_SURVIVES: "its process does not die, nor has to be killed"}


def check(name: str, asked: str | None, examples: int, limit_s: float) -> Checked:
    """Examine a scheduler by the contract `asked` for (else that of its declared kind, else for mapping); a
    decision may take `limit_s`. Raises SchedulerNotLoaded, also where it declares another kind.
    """
    spec = resolve(name)
    contract = contract_for(asked or spec.kind or Kind.MAPPING)
    kind = contract.kind
    if asked is not None:
        spec.require(kind, f"--kind {asked}")
    found: list[Finding] = []
    exercised = frozenset[str]()

    def note_finding(_item: Item, finding: Finding | None) -> None:
        if finding is None:
            found.clear()  # of a try whose process was killed
        else:
            found.append(finding)

    def finish(_item: Item, value: frozenset[str] | Died) -> None:
        nonlocal exercised
        if isinstance(value, Died):
            found.append(Finding(PROCESS_SURVIVES, str(value)))
        else:
            exercised = value | {PROCESS_SURVIVES}

    with Processes(1) as executor:
        item = Item(name, partial(_check_here, spec, contract, examples, limit_s))
        executor.run([item], finish, note_finding)
    return Checked(kind, found, exercised)


def _check_here(
    spec: SchedulerSpec, contract: type[Contract[Any]], examples: int, limit_s: float
) -> frozenset[str]:
    """The rules that were exercised. Findings are reported at once, and stand if the process dies."""
    send_report(None)
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

    examination = Examination(spec.factory(), contract(), examples, within_the_limit)
    for broken in examination.broken_rules():
        send_report(Finding(broken.rule, broken.message, tuple(map(str, broken.problems))))
    return frozenset(examination.exercised)
