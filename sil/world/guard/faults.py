"""A scheduler under test that misbehaves: what it did, to which job, and when."""

from __future__ import annotations

from scheduler.model import JobId

PROCESS_SURVIVES = "process-survives"
"""The process that runs the scheduler does not die, nor has to be ended."""

COST_IS_KNOWN = "cost-is-known"
"""The decision has a cost: that of a model is not infinite, an earlier run decided so often, too."""

SPEAKS_THE_PROTOCOL = "speaks-the-protocol"
"""What a scheduler in another process sends is a message that means something."""


class SchedulerFault(Exception):
    """The scheduler broke `rule`; this ends its run, and no other.

    `job` is the job concerned, where it is one job; `time_s` the simulated time.
    """

    def __init__(self, rule: str, message: str, time_s: float, job: JobId | None = None) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message
        self.time_s = time_s
        self.job = job

    def __reduce__(self) -> tuple[type[SchedulerFault], tuple[str, str, float, JobId | None]]:
        return SchedulerFault, (self.rule, self.message, self.time_s, self.job)
