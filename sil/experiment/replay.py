"""One log replayed under several schedulers, with tables and a report of the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path

from scheduler import UserError
from sil.experiment.output_folder import UNFINISHED, alone_in, make_usable, resumable
from sil.experiment.provenance import code_under_test
from sil.experiment.replay_folder import FIGURES, REPORT, SUMMARY, write_summary
from sil.outcome.jobs import JOBS, SCHEDULE
from sil.outcome.replayed_log import Results
from sil.report.analysis import Analysis
from sil.report.listing import file_name
from sil.report.origin import ORIGIN, record_origin
from sil.runs.on_log import Replay
from sil.runs.under_test import SlurmProgram, UnderTest
from sil.settings.decision_costs import replayed_trace
from sil.settings.files import code_and_data
from sil.trace.facts import TIMINGS, TRACE
from sil.trace.reading import read_facts
from sil.workers.executor import Executor, Inline, Interrupted, Item, Listener
from sil.workers.processes import Processes
from sil.workers.runner import Runner, digest
from sil.workers.store import MISSING
from sil.world.guard.faults import Died, sentence
from site_db.files.access import no_link

FEW_IN_ALL = 10_000
"""The most jobs, over all schedulers, whose replay takes less time than starting worker processes."""
FILES = (SUMMARY, REPORT, FIGURES, ORIGIN, UNFINISHED)
"""Files of the results, in addition to the folders of the schedulers."""
_TABLES = (TRACE, TIMINGS, JOBS, SCHEDULE)


@dataclass(frozen=True, kw_only=True)
class Outcome(Results):
    """The results under one scheduler, and the folder of its tables; without any if its process died."""

    scheduler: str
    folder: Path


def replay_all(
    replay: Replay,
    schedulers: Sequence[UnderTest],
    out: Path,
    executor: Executor,
    analysis: Analysis,
    listener: Listener,
) -> list[Outcome]:
    """Replay a log under each scheduler, and write the results into `out`, after Ctrl-C those of the
    schedulers that are done; not the report, of which the summary has the analysis.

    Built-in schedulers run in this process if that is faster. Raises UserError and what `Runner.run`
    raises; if costs of an earlier run are charged again, also NoTrace, and UserError if the results
    would replace that run.
    """
    folders = _folders(out, schedulers)
    charged = replayed_trace(replay.decision_cost)
    if charged is not None:
        read_facts(charged)
        if charged.resolve() in {(folder / TRACE).resolve() for folder in folders.values()}:
            raise UserError(f"{charged} has the costs to be charged; name another folder with --out")
    # Reasons take long to write.
    n_jobs = FEW_IN_ALL + 1 if replay.reasons else len(replay.log.jobs) * len(schedulers)
    executor = fastest(executor, schedulers, len(schedulers), n_jobs)
    found: dict[UnderTest, Outcome] = {}
    interrupted: Interrupted | None = None
    make_usable(out)
    with alone_in(out):
        for folder in folders.values():
            make_usable(no_link(folder))
            no_link(folder / SCHEDULE)  # the others are renamed when they are complete
        record_origin(out, replay.log.sources or {replay.log.name: replay.log.digest()})
        with resumable(out, (SUMMARY, REPORT)) as store:
            try:
                _replay(replay, folders, Runner(executor, store, total=len(folders)), listener, found)
            except Interrupted as error:
                interrupted = error
            outcomes = [found[scheduler] for scheduler in folders if scheduler in found]
            of_slurm = [each for each in schedulers if isinstance(each, SlurmProgram)]
            programs = {each.label: each.program.described() for each in of_slurm}
            write_summary(out, replay, {o.scheduler: o for o in outcomes}, programs, analysis)
            if interrupted is not None:
                raise interrupted
    return outcomes


def _folders(out: Path, schedulers: Iterable[UnderTest]) -> dict[UnderTest, Path]:
    """The folder of each scheduler. Raises UserError for a name that leads to no folder of its own."""
    # Absolute, since a scheduler may change the working directory.
    folders = {scheduler: (out / file_name(scheduler.label)).absolute() for scheduler in schedulers}
    for scheduler, folder in folders.items():
        if folder.name in FILES:
            raise UserError(
                f"the results of '{scheduler.label}' would be in {folder}, where those of all are; name it "
                "differently"
            )
    for one, other in combinations(folders, 2):
        if folders[one] == folders[other]:
            raise UserError(
                f"the results of '{one.label}' and '{other.label}' would both be in {folders[one]}; name one "
                "differently"
            )
    return folders


def _replay(
    replay: Replay,
    folders: Mapping[UnderTest, Path],
    runner: Runner,
    listener: Listener,
    found: dict[UnderTest, Outcome],
) -> None:
    """Write the tables that an interrupted replay has not written, and note what is `found`."""
    how = replace(replay, log=replace(replay.log, jobs=replay.log.jobs.clear()))
    mark = digest(code_and_data(), how, replay.log.digest(), list(map(code_under_test, folders)))
    schedulers = {f"{mark}/{scheduler.label}": scheduler for scheduler in folders}
    items = [
        Item(key, partial(replay.run, scheduler), folders[scheduler], gets_attempt=True)
        for key, scheduler in schedulers.items()
    ]
    done = {schedulers[item.key] for item in items if runner.store.get(item.key, Results) is not MISSING}
    if not done or not all((folders[each] / name).is_file() for each in done for name in _TABLES):
        runner.store.remove()
        done.clear()
    for scheduler in folders.keys() - done:
        for old in _TABLES:
            (folders[scheduler] / old).unlink(missing_ok=True)
    n_jobs, arrived = len(replay.log.jobs), dict.fromkeys(schedulers, 0)

    def progress(item: Item, n: int) -> None:
        arrived[item.key] = n
        listener.progressed(sum(arrived.values()), n_jobs * len(items))

    def finish(item: Item, value: Results | Died) -> None:
        progress(item, n_jobs)
        scheduler = schedulers[item.key]
        results = without_results(scheduler, value) if isinstance(value, Died) else value
        place = folders[scheduler]
        found[scheduler] = Outcome(**vars(results), scheduler=scheduler.label, folder=place)
        if results.fault is None:
            listener.finished(scheduler.label)

    runner.run(items, finish, progress, kind=Results)


def left_from_before(out: Path, outcomes: Sequence[Outcome]) -> list[str]:
    """Other folders in `out` that have a trace."""
    ours = {outcome.folder.name for outcome in outcomes}
    return sorted(trace.parent.name for trace in out.glob(f"*/{TRACE}") if trace.parent.name not in ours)


def fastest(executor: Executor, schedulers: Sequence[UnderTest], n_items: int, n_jobs: int) -> Executor:
    """This process for built-in schedulers, unless worker processes would finish sooner: there are several
    items, with many jobs over all of them."""
    if not isinstance(executor, Processes) or not all(scheduler.is_built_in for scheduler in schedulers):
        return executor
    here = min(executor.slots, n_items) == 1 or n_jobs <= FEW_IN_ALL
    return Inline() if here else executor


def without_results(scheduler: UnderTest, died: Died) -> Results:
    """The results of a scheduler whose process died: its fault."""
    return Results({}, sentence(scheduler.label, died.rule, str(died)))
