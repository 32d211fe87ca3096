"""One log under several schedulers, in processes of their own or in this one, and what that amounts to."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import polars as pl

from sil.experiment.listener import Listener
from sil.experiment.output_folder import UnusableFolder, as_file_name, make_usable, no_room, told_of_no_room
from sil.experiment.replay_folder import JOBS, REPORT, SCHEDULE, SUMMARY, render
from sil.outcome.batsim_tables import batsim_schedule, replayed_jobs
from sil.outcome.invariants import Capacity, first_breach
from sil.outcome.metrics import replay_metrics
from sil.runs.on_log import Replay, schedulers_for_logs
from sil.runs.under_test import UnderTest
from sil.settings.decision_costs import BadDecisionCost, replayed_trace
from sil.trace.facts import TIMINGS, TRACE, Fact, read_facts
from sil.workers.processes import end_workers, lead_own_group, worker_context
from sil.workers.watchdog import LOOK_EVERY_S, Watchdog
from sil.world.guard.faults import PROCESS_SURVIVES

FEW_JOBS = 10_000
"""So few, over all schedulers, are mostly replayed before other processes would have begun."""


class ReplayInterrupted(Exception):
    """The user stopped it. Schedulers that were done are kept."""


@dataclass(frozen=True)
class Outcome:
    """What became of a log under one scheduler: its statistics, and its fault, if there was one."""

    scheduler: str
    folder: Path
    jobs: pl.DataFrame
    statistics: dict[str, float]
    fault: str | None


def replay_all(
    replay: Replay, names: Sequence[str], out: Path, workers: int, report: bool, listener: Listener
) -> list[Outcome]:
    """Replay a log under each scheduler, and write what it amounts to into `out`.

    Raises SchedulerNotLoaded, UnusableFolder and ReplayInterrupted; if costs of an earlier run are charged
    again, also NoTrace, and BadDecisionCost if the results would replace that run.
    """
    schedulers = schedulers_for_logs(names)
    # Absolute, since a scheduler may change the working directory.
    folders = {scheduler: (out / as_file_name(scheduler.label)).absolute() for scheduler in schedulers}
    charged = replayed_trace(replay.decision_cost)
    if charged is not None:
        read_facts(charged)
        if charged.resolve() in {(folder / TRACE).resolve() for folder in folders.values()}:
            raise BadDecisionCost(f"{charged} has the costs to be charged; name another folder with --out")
    for folder in (out, *folders.values()):
        make_usable(folder)
        for old in (TRACE, TIMINGS, JOBS, SCHEDULE):
            (folder / old).unlink(missing_ok=True)
    for old in (SUMMARY, REPORT):
        (out / old).unlink(missing_ok=True)
    listener.started(0, len(replay.log.jobs) * len(schedulers))
    if _takes_place_here(replay, schedulers, workers):
        done = 0
        for scheduler, folder in folders.items():
            base = done
            replay.run(scheduler, folder, lambda n, base=base: listener.progressed(base + n))  # type: ignore[misc]
            done += len(replay.log.jobs)
        died: set[UnderTest] = set()
    else:
        died = _in_processes(replay, folders, workers, listener)
    outcomes = [
        _outcome(replay, scheduler.label, folder, scheduler in died) for scheduler, folder in folders.items()
    ]
    _write_summary(out / SUMMARY, replay, outcomes)
    if report:
        render(out)
    return outcomes


def left_from_before(out: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """The folders in `out` that have a trace, and none of these."""
    ours = {outcome.folder.name for outcome in outcomes}
    return sorted(trace.parent.name for trace in out.glob(f"*/{TRACE}") if trace.parent.name not in ours)


def _takes_place_here(replay: Replay, schedulers: Sequence[UnderTest], workers: int) -> bool:
    """Ours are trusted with this process, where others would not work side by side, or be done no sooner."""
    if not all(scheduler.is_built_in for scheduler in schedulers):
        return False
    few = len(replay.log.jobs) * len(schedulers) <= FEW_JOBS
    return min(workers, len(schedulers)) == 1 or (few and not replay.reasons)  # to tell these takes long


@dataclass(frozen=True)
class _Told:
    """What processes tell this one, each in its place, in memory that they share."""

    arrived: Any
    """How many jobs have arrived."""
    no_room: Any
    """The number of the error with which no more could be written; 0 where all went well."""


def _in_processes(
    replay: Replay, folders: dict[UnderTest, Path], workers: int, listener: Listener
) -> set[UnderTest]:
    """Returns the schedulers whose processes died. Raises UnusableFolder where no more can be written."""
    context = worker_context()
    watchdog = Watchdog(context, len(folders))
    told = _Told(context.RawArray("q", len(folders)), context.RawArray("i", len(folders)))
    waiting = deque(enumerate(folders.items()))
    running: dict[UnderTest, BaseProcess] = {}
    died: set[UnderTest] = set()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                place, (name, folder) = waiting.popleft()
                arguments = (replay, name, folder, watchdog, told, place)
                running[name] = context.Process(target=_replay_apart, args=arguments)
                running[name].start()
            time.sleep(min(LOOK_EVERY_S, 0.1))
            watchdog.end_the_lost()
            listener.progressed(sum(told.arrived))
            for name in [name for name, process in running.items() if not process.is_alive()]:
                if running.pop(name).exitcode != 0:
                    died.add(name)
            if number := max(told.no_room):
                raise UnusableFolder(told_of_no_room(number))
    except KeyboardInterrupt:
        end_workers()
        raise ReplayInterrupted from None
    except UnusableFolder:
        end_workers()
        raise
    finally:
        watchdog.end_all()
    return died


def _replay_apart(
    replay: Replay, scheduler: UnderTest, folder: Path, watchdog: Watchdog, told: _Told, place: int
) -> None:
    lead_own_group()
    watchdog.watch_this_process()

    def tell(n: int) -> None:
        told.arrived[place] = n

    try:
        replay.run(scheduler, folder, tell)
    except OSError as error:
        number = no_room(error)
        if number is None:
            raise
        told.no_room[place] = number


def _outcome(replay: Replay, name: str, folder: Path, died: bool) -> Outcome:
    """Write the tables of one scheduler; a fault is told in one sentence."""
    trace = folder / TRACE
    if died or not trace.is_file():
        message = "its process died, or had to be ended because it did not come back from a decision"
        return Outcome(
            name, folder, pl.DataFrame(), {}, f"{name} broke the rule {PROCESS_SURVIVES}: {message}"
        )
    log = replay.log
    jobs = replayed_jobs(trace, log.jobs, log.cut)
    jobs.write_csv(folder / JOBS)
    decided_s = float(pl.read_parquet(folder / TIMINGS, columns=["wall_s"])["wall_s"].sum())
    batsim_schedule(jobs, len(log.jobs), log.processors, decided_s).write_csv(folder / SCHEDULE)
    fault = _fault(trace, name)
    if fault is None and (breach := first_breach(read_facts(trace), Capacity(log.processors))) is not None:
        fault = f"{name}: the trace breaks the invariant {breach.rule}: {breach.message}"
    return Outcome(name, folder, jobs, {} if fault else replay_metrics(jobs, log.processors), fault)


def _fault(trace: Path, name: str) -> str | None:
    found = pl.scan_parquet(trace).filter(pl.col("event") == Fact.FAULT).collect()
    for time_s, rule, message in found.select("time_s", "detail", "message").iter_rows():
        return f"{name} broke the rule {rule} at {time_s:.12g} s: {message}"
    return None


def _described(replay: Replay, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    log = replay.log
    return {
        "log": log.name,
        "acknowledge": log.header.get("acknowledge", ""),
        "part": list(log.part),
        "jobs": len(log.jobs),
        "processors": log.processors,
        "load": log.load,
        "days": log.span_s / 86_400.0,
        "estimates": replay.estimates.value,
        "order": replay.order,
        "decision_cost": replay.decision_cost,
        "repairs": list(log.notes),
        "schedulers": {o.scheduler: {**o.statistics, "fault": o.fault} for o in outcomes},
        **{key: replay.described("")[key] for key in ("version", "scheduler_source")},
    }


def _write_summary(path: Path, replay: Replay, outcomes: Sequence[Outcome]) -> None:
    text = json.dumps(_described(replay, outcomes), indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
