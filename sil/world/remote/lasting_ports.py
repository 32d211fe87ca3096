"""Ports that outlive the process of a resource manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from scheduler.model import ExecutionRecord, Job, JobId
from scheduler.resource_manager import OnFreeNodes, OnMachines, Ports


class ReadAgain:
    """A monitor whose readings are read again by a manager that crashed while it read them."""

    def __init__(self, monitor: Any) -> None:
        self._monitor = monitor
        self._read: list[Any] = []
        self._again: list[Any] = []

    def news(self) -> Sequence[Any]:
        new, self._again = [*self._again, *(() if self._monitor is None else self._monitor.news())], []
        self._read += new
        return new

    def forget(self) -> None:
        self._read.clear()

    def read_again(self) -> None:
        self._again, self._read = [*self._read, *self._again], []


def once_each_job(ports: Ports, strike: Callable[[], None]) -> Ports:
    """A manager that restarts may report the run of a job again; it may crash before it reports one."""
    if isinstance(ports, OnMachines):
        return replace(ports, experience=_RecordedOnce(ports.experience, strike))
    if isinstance(ports, OnFreeNodes):
        return replace(ports, run_times=_LearnedOnce(ports.run_times, strike))
    return ports


class _RecordedOnce:
    def __init__(self, experience: Any, strike: Callable[[], None]) -> None:
        self.estimate = experience.estimate
        self._record = experience.record
        self._strike = strike
        self._recorded: set[JobId] = set()

    def record(self, record: ExecutionRecord) -> None:
        self._strike()
        if record.job.id not in self._recorded:
            self._recorded.add(record.job.id)
            self._record(record)


class _LearnedOnce:
    def __init__(self, run_times: Any, strike: Callable[[], None]) -> None:
        self.estimate_s = run_times.estimate_s
        self.outlived_s = run_times.outlived_s
        self._learn = run_times.learn
        self._strike = strike
        self._learned: set[JobId] = set()

    def learn(self, job: Job, ran_s: float) -> None:
        self._strike()
        if job.id not in self._learned:
            self._learned.add(job.id)
            self._learn(job, ran_s)
