"""`sil compare-traces` and `sil why`: inspect traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.exceptions import Exit

from scheduler.messages import counted
from sil.cli import console, options

if TYPE_CHECKING:
    import polars as pl


def compare_traces(
    one: Path,
    other: Path,
    scheduler: list[str] | None = None,
    replication: options.Replication = 0,
    point: options.Point = 0,
    as_json: options.Json = False,
) -> None:
    """Find the first decision at which two runs diverge, and show the state before it.

    * `one`: A trace.parquet, or its folder.
    * `other`: Another one.
    * `scheduler`: Scheduler, if a trace has several; given twice, the first is that of the first trace.

    Exit code 0 if the runs are equal, 1 if they diverge. Scheduler names and charged decision times are
    ignored.
    """
    from sil.outcome.trace_inspection import divergence, listed, sentence
    from sil.trace.reading import read_clock, trace_file

    names = list(scheduler or [])
    if len(names) > 2:
        console.fail(
            f"--scheduler is given {len(names)} times; give it once for both traces, or once for each"
        )
    runs = [
        _run(path, names[min(k, len(names) - 1)] if names else None, point, replication)
        for k, path in enumerate((one, other))
    ]
    clock = read_clock(trace_file(one), runs[0])
    found = divergence(runs[0], runs[1])
    if as_json:
        console.print_json(
            {"equal": found is None, **({"facts": len(runs[0])} if found is None else asdict(found))}
        )
    elif found is None:
        console.print_line(f"The two runs are equal: {counted(len(runs[0]), 'fact')}.")
    else:
        equal = f"The runs are equal for {counted(found.facts, 'fact')}"
        console.print_line(f"{equal} and diverge at {clock.text(found.time_s)}.")
        running = [f"job {r.job} on {r.where} since {clock.text(r.since_s)}" for r in found.running]
        console.print_line(listed("Running then", running))
        console.print_line(listed("Waiting then", [f"job {job}" for job in found.waiting]))
        for path, facts in ((one, found.one), (other, found.other)):
            console.print_line(f"{path}:")
            for fact in facts:
                line = f"  {clock.text(fact['time_s'])}  {clock.sentence(sentence(fact))}"
                console.print_line(line)
            if not facts:
                console.print_line("  end of the trace")
    if found is not None:
        raise Exit(console.EXIT_FAULT)


def why(
    trace: Path,
    *,
    job: str,
    scheduler: str | None = None,
    replication: options.Replication = 0,
    point: options.Point = 0,
    as_json: options.Json = False,
) -> None:
    """Show the timeline of a job: its arrival, why it waited, its runs and its end.

    * `trace`: A trace.parquet, or its folder.
    * `job`: The job's id in the log, like 100_1, or its number.
    * `scheduler`: Scheduler, if the trace has several.

    Traces have wait reasons if they are recorded with `--reasons` of `sil replay` or `sil run`.
    """
    from sil.outcome.trace_inspection import timeline
    from sil.trace.log_ids import ids_in
    from sil.trace.reading import read_clock, read_resource_names, trace_file

    facts = _run(trace, scheduler, point, replication)
    places = read_resource_names(trace_file(trace))
    ids = ids_in(facts, trace)
    number = ids.number(job)
    clock = read_clock(trace_file(trace), facts)
    found = timeline(facts, number, places)
    assert found is not None  # the job has arrived
    if as_json:
        events = [{"time_s": time_s, "event": text} for time_s, text in found.events]
        log_id = {"log_id": ids.text(number)} if ids.differ else {}
        console.print_json({"job": number, **log_id, **asdict(found), "events": events})
        return
    for line in (*found.lines(clock), *ids.namesakes(number)):
        console.print_line(line)
    if not found.has_reasons:
        console.print_line(
            "This trace has no wait reasons; record them with --reasons of `sil replay` and `sil run`."
        )


def _run(path: Path, scheduler: str | None, point: int, replication: int) -> pl.DataFrame:
    from sil.outcome.trace_inspection import runs_of
    from sil.trace.reading import read_facts, trace_file

    facts = read_facts(trace_file(path))
    runs: Sequence[tuple[Any, ...]] = [run for run in runs_of(facts) if run[:2] == (point, replication)]
    names = [name for _, _, name in runs]
    if not names:
        console.fail(f"{path}: there is no replication {replication} of point {point} in this trace")
    if scheduler is None and len(names) > 1:
        console.fail(
            f"{path}: this trace has several schedulers; choose one with --scheduler: {', '.join(names)}"
        )
    if scheduler is not None and scheduler not in names:
        console.fail(f"{path}: this trace has no scheduler '{scheduler}'; it has {', '.join(names)}")
    return facts.filter(point=point, replication=replication, scheduler=scheduler or names[0])
