"""The kinds of scheduling problems, the rules that every scheduler keeps, and what breaking one is; and
reasons for waiting, computed on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from scheduler.model import Answer, JobId, NodeSchedule, Start
from scheduler.node_set import NodeSet


class Reasons(dict[int, str]):
    """A short reason for each job; `in_detail(i)` computes more about job i."""

    def __init__(self, reasons: Mapping[int, str], in_detail: Callable[[int], str]) -> None:
        super().__init__(reasons)
        self.in_detail = in_detail


class AllOthers(Mapping[int, str]):
    """One short reason for all jobs of a problem that do not start; `in_detail(i)` computes more about job i
    from the problem, before the schedule is carried out."""

    __slots__ = ("_n_jobs", "_starts", "in_detail", "reason")

    def __init__(
        self, n_jobs: int, starts: Sequence[Start], reason: str, in_detail: Callable[[int], str] | None = None
    ) -> None:
        self._n_jobs = n_jobs
        self._starts = starts
        self.reason = reason
        self.in_detail = in_detail

    def are_all_but(self, starts: Sequence[Start], n_jobs: int) -> bool:
        """Whether these are by construction the reasons of all of `n_jobs` jobs except `starts`. O(1)."""
        return self._starts is starts and self._n_jobs == n_jobs

    def __len__(self) -> int:
        return self._n_jobs - len(self._starts)

    @property
    def started(self) -> set[int]:
        """The jobs that start."""
        return {start.job for start in self._starts}

    def __iter__(self) -> Iterator[int]:
        started = self.started
        return (i for i in range(self._n_jobs) if i not in started)

    def __getitem__(self, i: int) -> str:
        if i in self:
            return self.reason
        raise KeyError(i)

    def __contains__(self, i: object) -> bool:
        if not isinstance(i, int) or not 0 <= i < self._n_jobs:
            return False
        return all(start.job != i for start in self._starts)


def all_in_detail(reasons: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """The most detailed reason for each job that waits."""
    of_all = getattr(getattr(reasons, "in_detail", None), "of_all", None)
    if of_all is None or not isinstance(reasons, AllOthers) or len(reasons) == 0:
        return ((i, in_detail(reasons, i)) for i in reasons)
    started = reasons.started
    return ((i, text) for i, text in enumerate(of_all()) if i not in started)


def in_detail(reasons: Mapping[int, str], i: int) -> str:
    """The most detailed reason for job i."""
    if isinstance(reasons, AllOthers | Reasons) and reasons.in_detail is not None:
        return reasons.in_detail(i)
    return reasons[i]


class Kind(StrEnum):
    """What a scheduler decides. The values are the names that options and plug-ins use.

    `Kind("time_shared")`, `Kind("time-shared")` and `Kind("shared_nodes")` are aliases of TIME_SHARED.
    """

    MAPPING = "mapping"
    TIME_SHARED = "shared-nodes"
    FREE_NODES = "free-nodes"
    CLUSTERS = "clusters"

    @classmethod
    def _missing_(cls, value: object) -> Kind | None:
        name = str(value).lower().replace("_", "-")
        if name == "time-shared":
            return cls.TIME_SHARED
        return next((kind for kind in cls if kind.value == name), None)

    @property
    def does(self) -> str:
        """The verb phrase for a scheduler of this kind."""
        return " ".join(_WORDS[self])


_WORDS = {
    Kind.MAPPING: ("maps jobs to", "machines"),
    Kind.TIME_SHARED: ("starts jobs on", "time-shared nodes"),
    Kind.FREE_NODES: ("starts jobs on", "free nodes"),
    Kind.CLUSTERS: ("sends jobs to", "several clusters"),
}


class WrongKind(AttributeError):
    """A scheduler reads an attribute of a problem of another kind than it was given."""

    def __init__(self, attribute: str, scheduler: Kind, problem: Kind) -> None:
        super().__init__(
            f"this scheduler {scheduler.does} (it reads problem.{attribute}), "
            f"but a problem on {_WORDS[problem][1]} needs one that {problem.does}"
        )


RETURNS_A_SCHEDULE = "returns-a-schedule"
KNOWN_JOB = "known-job"
EACH_JOB_ONCE = "each-job-once"
NO_JOB_FORGOTTEN = "no-job-forgotten"
COMPLETION_AS_EXPECTED = "completion-as-expected"

KNOWN_RESOURCE = "known-resource"
CLASS_CAN_RUN_THERE = "class-can-run-there"
RESOURCE_AVAILABLE = "resource-available"
NOT_IN_THE_PAST = "not-in-the-past"
NO_DOUBLE_BOOKING = "no-double-booking"
CLUSTER_MEMBERS_FREE = "cluster-members-free"
PREEMPTS_RUNNING_RUNS = "preempts-running-runs"

KNOWN_NODES = "known-nodes"
ONE_TASK_ON_EACH_NODE = "one-task-on-each-node"
NODES_FREE = "nodes-free"
WITHIN_LIMITS = "within-limits"
OUTSIDE_RESERVATIONS = "outside-reservations"
SOCIAL_CONTRACT = "social-contract"

RIGHT_KIND = "right-kind"
RAISES_NOTHING = "raises-nothing"
RETURNS_IN_TIME = "returns-in-time"
DETERMINISTIC = "deterministic"
PROBLEM_UNTOUCHED = "problem-untouched"
MAKES_PROGRESS = "makes-progress"

RULES_OF_CONDUCT = {
    RIGHT_KIND: "schedule(problem) reads only attributes of the kind of problem that it gets",
    RAISES_NOTHING: "schedule(problem) raises no exception",
    RETURNS_IN_TIME: "schedule(problem) returns within the decision limit",
    DETERMINISTIC: "the same problems in the same order lead to the same schedules",
    PROBLEM_UNTOUCHED: "the problem is read and never changed",
    MAKES_PROGRESS: "runnable jobs are never starved or restarted endlessly",
}
"""The rules for schedulers of all kinds."""

_OF_A_SCHEDULE = {
    RETURNS_A_SCHEDULE: "schedule(problem) returns a Schedule with columns of the right shape and type",
    KNOWN_JOB: "every job named is one of the problem's jobs",
    KNOWN_RESOURCE: "every resource named is one of the problem's machines or clusters",
    EACH_JOB_ONCE: "no job is mapped twice, or mapped and left waiting",
    NO_JOB_FORGOTTEN: "every job is mapped, or left waiting with a reason",
    CLASS_CAN_RUN_THERE: "no job is mapped to a resource that cannot run its class",
    RESOURCE_AVAILABLE: "no job is mapped to a machine that is down or a cluster that is not available",
    NOT_IN_THE_PAST: "no job starts before now",
    NO_DOUBLE_BOOKING: "a machine has one run at a time, and none before it is ready",
    CLUSTER_MEMBERS_FREE: "a cluster starts a job only when all its members are free, and keeps them",
    COMPLETION_AS_EXPECTED: "completion is start plus the expected time",
    PREEMPTS_RUNNING_RUNS: "only running runs are preempted, each once",
}
_OF_A_NODE_SCHEDULE = {
    RETURNS_A_SCHEDULE: "schedule(problem) returns a NodeSchedule with starts of the right types",
    KNOWN_JOB: "every job named is one of the problem's jobs",
    EACH_JOB_ONCE: "no job starts twice, or starts and is left waiting",
    NO_JOB_FORGOTTEN: "every job starts, or is left waiting with a reason",
    COMPLETION_AS_EXPECTED: "completion is a time after now",
    KNOWN_NODES: "every node named is one of the cluster's",
    ONE_TASK_ON_EACH_NODE: "a job gets as many different nodes as it has tasks",
}
RULES_OF = {
    Kind.MAPPING: _OF_A_SCHEDULE | RULES_OF_CONDUCT,
    Kind.FREE_NODES: _OF_A_NODE_SCHEDULE
    | {
        NODES_FREE: "a job gets nodes that are free, and each node goes to one job",
        WITHIN_LIMITS: "no start exceeds a limit of the site's policy",
        OUTSIDE_RESERVATIONS: "no start is expected to be in a reservation of others, or outside its own one",
    }
    | RULES_OF_CONDUCT,
    Kind.TIME_SHARED: _OF_A_NODE_SCHEDULE
    | {SOCIAL_CONTRACT: "no start exceeds the parallel MPL, memory or CPU that a node allows"}
    | RULES_OF_CONDUCT,
    Kind.CLUSTERS: _OF_A_NODE_SCHEDULE
    | {
        NO_JOB_FORGOTTEN: "the job is sent to a cluster",
        KNOWN_NODES: "every cluster named is one of the problem's",
        ONE_TASK_ON_EACH_NODE: "no cluster is named twice",
    }
    | {rule: sentence for rule, sentence in RULES_OF_CONDUCT.items() if rule != MAKES_PROGRESS},
}
"""The rules for each kind of scheduler, and one sentence for each."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule or invariant: its name, the job concerned (if it is one job), and one sentence; and the
    time, if that is not in the sentence."""

    rule: str
    job: JobId | None
    message: str
    time_s: float | None = None


class ScheduleRejected(Exception):
    """A scheduler returned a schedule that breaks a rule."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(f"{violation.rule}: {violation.message}")
        self.violation = violation


def first_difference(one: Answer, other: Answer) -> int | None:
    """Index of the first job on which two answers differ, -1 if they differ otherwise, None if not at all."""
    if isinstance(one, NodeSchedule) or isinstance(other, NodeSchedule):
        if not (isinstance(one, NodeSchedule) and isinstance(other, NodeSchedule)):
            return -1
        if (waiting := _first_different_wait(one, other)) is not None:
            return waiting
        for a, b in zip(one.starts, other.starts, strict=False):
            # Nodes may also be given as an array, GPUs as a list.
            shares, others = (sorted((n, k, tuple(gpus)) for n, k, gpus in start.shares) for start in (a, b))
            if a[::2] != b[::2] or shares != others or NodeSet.of(a.nodes) != NodeSet.of(b.nodes):
                return a.job
        return None if one.ask_again_s == other.ask_again_s else -1
    here, there = one.assignments, other.assignments
    n_common = min(len(here), len(there))
    differs = np.zeros(n_common, dtype=bool)
    for left, right in zip(here.columns, there.columns, strict=True):
        differs |= left[:n_common] != right[:n_common]
    if differs.any():
        return int(here.jobs[differs.argmax()])
    longer = max(here.jobs, there.jobs, key=len)
    if len(longer) > n_common:
        return int(longer[n_common])
    if (waiting := _first_different_wait(one, other)) is not None:
        return waiting
    return -1 if one.preemptions != other.preemptions else None


def _first_different_wait(one: Answer, other: Answer) -> int | None:
    here, there = one.wait_reasons, other.wait_reasons
    if isinstance(here, AllOthers) and isinstance(there, AllOthers):
        in_one_only = sorted(here.started ^ there.started)  # few, where many wait
    else:
        in_one_only = sorted(set(here) ^ set(there))
    return int(in_one_only[0]) if in_one_only else None
