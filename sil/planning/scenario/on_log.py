"""Plans for the machine of a log: more processors, and consecutive parts of the log as replications."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from sil.experiment.logs import read_log
from sil.outcome.batsim_tables import replayed_jobs
from sil.outcome.metrics import faults, measured
from sil.planning.options import Option
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.scenario.capacity import Load
from sil.planning.scenario.scenario import key_of
from sil.runs.on_log import Replay, schedulers_for_logs
from sil.runs.under_test import UnderTest
from sil.settings.code_version import code_and_data
from sil.trace.facts import TRACE, read_facts
from sil.workload.job_log import JobLog
from sil.workload.swf_rules import Rules
from sil.world.guard.faults import SchedulerFault
from sil.world.random_streams import RandomStreams

RIGID = "rigid jobs"


@dataclass(frozen=True)
class LogRun:
    """A scheduler on one part of a log; `mark` identifies the log and the code. Calling it raises
    SchedulerFault."""

    part: JobLog
    processors: int
    mark: str
    under_test: UnderTest
    seed: int
    check_determinism: bool
    replication: int
    goals: tuple[GoalTable, ...]
    warm_up_jobs: int

    @property
    def scheduler(self) -> str:
        return self.under_test.label

    @cached_property
    def key(self) -> str:
        goals = [goal.key for goal in self.goals]
        return key_of(self.mark, self.processors, self.scheduler, self.replication, goals, self.warm_up_jobs)

    def __call__(self) -> dict[str, float]:
        with TemporaryDirectory() as name:
            folder = Path(name)
            seed = RandomStreams(self.seed, self.replication).scheduler_seed
            replay = Replay(
                self.part.on(self.processors), seed=seed, check_determinism=self.check_determinism
            )
            replay.run(self.under_test, folder)
            for fault in faults(read_facts(folder / TRACE)).iter_rows(named=True):
                where = f"under {self.scheduler}, in part {self.replication} of the log"
                message = f"{where}: {fault['message']}"
                raise SchedulerFault(fault["rule"], message, fault["time_s"], fault["job"])
            jobs = replayed_jobs(folder / TRACE, self.part.jobs)
        held = jobs.select(
            from_s="starting_time", until_s="finish_time", tasks="requested_number_of_resources"
        )
        jobs = jobs.sort("submission_time", "job_id")[self.warm_up_jobs :]
        return {goal.key: measured(goal.metric, jobs, held, self.processors) for goal in self.goals}


class OnLog:
    """Raises BadLog, and SchedulerNotLoaded for a scheduler that cannot replay a log."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        assert plan.log is not None
        self.plan = plan
        path = folder / plan.log.file
        log = read_log(path, Rules(), plan.log.processors)
        self._log = log if plan.log.load == 1.0 else log.with_load(plan.log.load)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        self._mark = f"{digest}|{plan.log.model_dump_json()}|{plan.seed}|{code_and_data()}"
        self._schedulers = schedulers_for_logs(plan.schedulers)

    def run(self, option: Option, scheduler: str, replication: int) -> LogRun:
        assert self.plan.log is not None
        n, parts = len(self._log.jobs), self.plan.log.parts
        part = self._log.slice(replication * n // parts, (replication + 1) * n // parts)
        return LogRun(
            part,
            self._processors(option),
            self._mark,
            next(found for found in self._schedulers if found.label == scheduler),
            self.plan.seed,
            self.plan.guard.ask_twice,
            replication,
            self.plan.goals,
            self.plan.warm_up_jobs,
        )

    def load(self, option: Option) -> Load | None:
        found = self._log.on(self._processors(option)).load
        return None if found is None else Load(found, RIGID)

    def _processors(self, option: Option) -> int:
        return self._log.processors + option.processors
