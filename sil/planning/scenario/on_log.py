"""Plans for the machine of a log: more processors, and consecutive parts of the log as replications."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from sil.experiment.provenance import code_under_test
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.jobs import bounded_slowdown
from sil.planning.options import Option
from sil.planning.plan_file import Plan
from sil.planning.scenario.capacity import Load
from sil.planning.scenario.scenario import OptionRun, Simulated
from sil.runs.on_log import Replay
from sil.runs.simulation import PRINTED
from sil.runs.under_test import Find, UnderTest, resolve, schedulers_for_logs
from sil.settings.files import code_and_data, named
from sil.site.logs import read_log
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from sil.workload.slices import equal_slices, with_warm_up
from sil.world.random_streams import RandomStreams
from site_db.files.readers import digest

RIGID = "rigid jobs"


def _simulated(plan: Plan, part: JobLog, capacity: int, scheduler: UnderTest, replication: int) -> Simulated:
    guard = plan.guard
    replay = Replay(
        part.on(capacity),
        decision_limit_s=guard.decision_limit_s,
        seed=RandomStreams(plan.seed, replication).scheduler_seed,
        determinism_check=guard.ask_twice,
        memory_limit_mb=guard.memory_limit_mb,
    )
    with TemporaryDirectory() as name:
        facts = replay.facts(scheduler, Path(name) / PRINTED)
    bound_s, processors = plan.bounded_slowdown_threshold_s, pl.col("requested_number_of_resources")
    per_processor = bounded_slowdown(pl.col("execution_time"), bound_s, processors)
    jobs = jobs_in(facts, part.jobs, bound_s=bound_s)
    jobs = jobs.with_columns(tasks=processors, per_processor=per_processor)
    runs = jobs.select(
        "job_id", from_s="starting_time", until_s="finish_time", tasks="requested_number_of_resources"
    )
    counts = pl.col("job_id").is_in(list(part.measured)) if part.measured else pl.lit(True)
    measured = jobs.filter(counts).sort("submission_time", "job_id")[plan.warm_up_jobs :]
    return Simulated(facts, runs, jobs, measured)


class OnLog:
    """Raises InvalidFile, and SchedulerNotLoaded for a scheduler that cannot replay a log."""

    def __init__(self, plan: Plan, folder: Path, find: Find = resolve) -> None:
        assert plan.log is not None
        self.plan = plan
        path = named(plan.log.file, folder)
        self._log = read_log(path, Rules(), plan.log.processors).with_load(plan.log.load)
        self._slices = with_warm_up(equal_slices(self._log, plan.log.n_parts)).slices
        of_log = digest(path)
        settings = f"{plan.log.model_dump_json()}|{plan.guard.model_dump_json()}|{plan.seed}"
        settings += f"|{plan.bounded_slowdown_threshold_s}"
        self._under_test = {found.label: found for found in schedulers_for_logs(plan.schedulers, find=find)}
        self._marks = {
            name: f"{of_log}|{settings}|{code_and_data()}|{code_under_test(scheduler)}"
            for name, scheduler in self._under_test.items()
        }

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        plan, part, capacity = self.plan, self._slices[replication].log, self._processors(option)
        simulate = partial(_simulated, plan, part, capacity, self._under_test[scheduler], replication)
        where = f"part {replication} of the log"
        return OptionRun(plan, self._marks[scheduler], scheduler, replication, capacity, where, simulate)

    def usable(self, option: Option, scheduler: str) -> Option:
        return option

    def load(self, option: Option) -> Load | None:
        found = self._log.on(self._processors(option)).load
        return None if found is None else Load(found, RIGID)

    def _processors(self, option: Option) -> int:
        return self._log.processors + option.processors
