"""The contract suite, run on a scheduler by its name in a process of its own, which it may kill; its answers
are judged here."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from scheduler.model import Answer
from scheduler.registry import SchedulerSpec
from scheduler.rules import (
    RAISES_NOTHING,
    RETURNS_A_SCHEDULE,
    RETURNS_IN_TIME,
    RIGHT_KIND,
    RULES_OF,
    Kind,
    WrongKind,
)
from scheduler.testing import contract_for
from scheduler.testing.examination import BrokeRule, CannotAnswer, Examination, LocalCandidate, Outline
from sil.isolation.answers import packed_answer, unpacked_answer
from sil.runs.under_test import InProcess, resolve
from sil.workers import channel
from sil.workers.channel import BadMessage, Message
from sil.workers.executor import Attempt, Item
from sil.workers.own_process import OwnProcess, own_process
from sil.workers.processes import Processes
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from sil.world.guard.faults import (
    KILLED,
    PROCESS_SURVIVES,
    Died,
    SchedulerFault,
    killed_from_outside,
    one_line,
)

MAX_BYTES = 1 << 24
"""The largest answer to one of these problems, in bytes."""


class Finding(NamedTuple):
    """A rule that a scheduler breaks; `asked` are the smallest problems on which it does, in order."""

    rule: str
    message: str
    asked: tuple[str, ...] = ()


ENDS_THE_SEARCH = (RETURNS_IN_TIME, PROCESS_SURVIVES)
"""Rules after which, when broken, nothing is known of the rules not checked before."""


class Checked(NamedTuple):
    """The rules that a scheduler of a kind breaks, and those that some of its answers exercised."""

    kind: Kind
    findings: list[Finding]
    exercised: frozenset[str]

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each rule: broken, holds, not exercised, or not known."""
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
    decision may take `limit_s`. Raises SchedulerNotLoaded, also where it declares another kind, and
    Died if no scheduler is at fault for that.
    """
    scheduler = resolve(name).require_in_process("a check")
    name_of_contract = asked or scheduler.spec.kind or Kind.MAPPING
    contract = contract_for(name_of_contract)
    if asked is not None:
        scheduler.require(contract.kind, f"--kind {asked}")
    checked: list[Checked | Died] = []
    # Judged in a new process, too: Hypothesis draws, among others, values from modules that are loaded.
    with Processes(1) as executor:
        judged = partial(_judged, scheduler, name_of_contract, examples, limit_s)
        item = Item(name, judged, gets_attempt=True)
        executor.run([item], lambda _, value: checked.append(value))
    (found,) = checked
    if isinstance(found, Died) and found.from_outside:
        raise killed_from_outside(found.how)
    if isinstance(found, Died):
        return Checked(contract.kind, [Finding(found.rule, str(found))], frozenset())
    return found


def _judged(
    scheduler: InProcess, name_of_contract: str, examples: int, limit_s: float, attempt: Attempt
) -> Checked:
    found: list[Finding] = []
    contract = contract_for(name_of_contract)
    call = partial(_answer, scheduler.spec, limit_s)
    folder = None if scheduler.isolation is None else scheduler.isolation.folder
    with own_process(call, (__name__,), own_modules=folder, attempt=attempt) as process:
        examination = Examination(lambda: _CandidateProxy(process), contract, examples)
        try:
            found.extend(
                Finding(broken.rule, broken.message, tuple(map(str, broken.problems)))
                for broken in examination.broken_rules()
            )
        except CannotAnswer as gone:
            if isinstance(gone.__cause__, Died):
                raise gone.__cause__ from None
            return Checked(contract.kind, [*found, Finding(gone.rule, str(gone))], frozenset())
    return Checked(contract.kind, found, frozenset(examination.exercised) | {PROCESS_SURVIVES})


class _CandidateProxy:
    def __init__(self, process: OwnProcess) -> None:
        self._process = process
        process.send(Message({"make": True}))

    def answer(self, outline: Outline[Any], first_id: int) -> tuple[Answer, str | None]:
        self._process.send(Message({"first_id": first_id}, pickle.dumps(outline)))
        try:
            message = self._process.receive(MAX_BYTES)
        except Died as died:
            if died.from_outside:
                raise CannotAnswer(KILLED, died.how) from died
            raise CannotAnswer(died.rule, str(died)) from None
        match message.fields:
            case {"broken": [str(rule), str(text)]}:
                raise BrokeRule(rule, one_line(text))
            case {"changed": None | str() as changed}:
                try:
                    n_jobs = outline.build(first_id).n_jobs
                    return unpacked_answer(message, n_jobs), None if changed is None else one_line(changed)
                except BadMessage as error:
                    raise BrokeRule(RETURNS_A_SCHEDULE, f"its answer cannot be read: {error}") from None
        raise BrokeRule(RETURNS_A_SCHEDULE, "its answer cannot be read")


def _answer(spec: SchedulerSpec, limit_s: float, connection: socket.socket) -> None:
    candidate: _Instance
    while True:
        try:
            request = channel.receive(connection)
        except (EOFError, OSError):
            return
        if request.fields.get("make"):
            candidate = _Instance(spec, limit_s)
        else:
            outline: Outline[Any] = pickle.loads(request.columns)
            channel.send(connection, candidate.reply(outline, request.fields["first_id"]))


class _Instance:
    """One instance; everything that it does is under one time limit."""

    def __init__(self, spec: SchedulerSpec, limit_s: float) -> None:
        self._limit_s = limit_s
        self._why_not: tuple[str, str] | None = None
        with self._broken_rules() as broken:
            self._here = LocalCandidate(spec.make())
        self._why_not = broken[0] if broken else None

    def reply(self, outline: Outline[Any], first_id: int) -> Message:
        if self._why_not is not None:
            return Message({"broken": list(self._why_not)})
        with self._broken_rules() as broken:
            answer, changed = self._here.answer(outline, first_id)
            message = packed_answer(outline.build(first_id), answer, with_details=False)
        if broken:
            return Message({"broken": list(broken[0])})
        return Message({**message.fields, "changed": changed}, message.columns)

    @contextmanager
    def _broken_rules(self) -> Iterator[list[tuple[str, str]]]:
        """The rule that the block breaks, and a message."""
        broken: list[tuple[str, str]] = []
        here = os.getpid()
        try:
            with time_limit(self._limit_s):
                try:
                    yield broken
                except (TimeLimitExceeded, KeyboardInterrupt):
                    raise
                except WrongKind as error:
                    broken.append((RIGHT_KIND, str(error)))
                except SchedulerFault as fault:
                    broken.append((fault.rule, fault.message))
                except BaseException as error:
                    message = f"schedule raised {type(error).__name__}: {one_line(error)}"
                    broken.append((RAISES_NOTHING, message))
        except TimeLimitExceeded:
            message = f"schedule did not return: {self._limit_s:g} s were allowed"
            broken[:] = [(RETURNS_IN_TIME, message)]
        if os.getpid() != here:
            os._exit(0)  # the scheduler forked: one of us is enough
