"""`sil compare-traces` and `sil why`: a look into traces."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sil.cli.console import EXIT_FAULT, fail, one_sentence_for_bad_input, out

if TYPE_CHECKING:
    import polars as pl


SHOWN = 12
"""So many jobs of a list are shown."""


def compare_traces(
    one: Annotated[Path, typer.Argument(help="A trace.parquet, or the folder that has it.")],
    other: Annotated[Path, typer.Argument(help="Another.")],
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            help="Whose runs, where a trace has several; given twice, first that of the first trace."
        ),
    ] = None,
    replication: Annotated[int, typer.Option(min=0, help="Which replication.")] = 0,
    point: Annotated[int, typer.Option(min=0, help="Which point of a grid.")] = 0,
) -> None:
    """Find the first decision at which two runs part, and show what both sides had seen until then.

    Exit code 0 where the runs are the same, 1 where they part. Names of schedulers, and what decisions were
    charged, make no difference.
    """
    from sil.outcome.trace_diff import parting, told

    names = list(scheduler or [])
    if len(names) > 2:
        fail(f"--scheduler is given {len(names)} times; once for both traces, or once for each")
    with one_sentence_for_bad_input():
        runs = [
            _run(path, names[min(k, len(names) - 1)] if names else None, point, replication)
            for k, path in enumerate((one, other))
        ]
    found = parting(runs[0], runs[1])
    if found is None:
        out.print(f"The two runs are the same: {len(runs[0]):,} facts.", highlight=False)
        return
    out.print(
        f"The runs are the same for {found.facts:,} facts, and part at {_s(found.time_s)}.",
        highlight=False,
        soft_wrap=True,
    )
    running = [f"job {r.job} on {r.where} since {_s(r.since_s)}" for r in found.running]
    _list("Then run", running)
    _list("Then wait", [f"job {job}" for job in found.waiting])
    for path, facts in ((one, found.one), (other, found.other)):
        out.print(f"{path}:", highlight=False, soft_wrap=True)
        for fact in facts:
            out.print(f"  {_s(fact['time_s'])}  {told(fact)}", highlight=False, soft_wrap=True, markup=False)
        if not facts:
            out.print("  nothing more")
    raise typer.Exit(EXIT_FAULT)


def why(
    trace: Annotated[Path, typer.Argument(help="A trace.parquet, or the folder that has it.")],
    job: Annotated[int, typer.Option("--job", help="The job's number.")],
    scheduler: Annotated[
        str | None, typer.Option(help="Under which scheduler, where the trace has several.")
    ] = None,
    replication: Annotated[int, typer.Option(min=0, help="In which replication.")] = 0,
    point: Annotated[int, typer.Option(min=0, help="At which point of a grid.")] = 0,
) -> None:
    """Tell a job's life: when it arrived, why it was passed over, when it started, and what became of it.

    Reasons are in traces of `sil replay --reasons`, and of experiments with `guard.reasons = true`.
    """
    from sil.outcome.job_timeline import life
    from sil.trace.facts import read_places

    with one_sentence_for_bad_input():
        facts = _run(trace, scheduler, point, replication)
        places = read_places(_file(trace))
    found = life(facts, job, places)
    if found is None:
        fail(f"{trace}: there is no job {job} in this run")
    for time_s, what in found.events:
        out.print(f"{_s(time_s):>16}  {what}", highlight=False, soft_wrap=True, markup=False)
    if found.waited_s is not None:
        out.print(f"It waited for {_s(found.waited_s)}.", highlight=False)
    if found.overtaken_by:
        _list("Overtaken by", [f"job {other}" for other in found.overtaken_by])
    if not found.has_reasons:
        out.print(
            "Why it was passed over is not in this trace: `sil replay --reasons` keeps that, and "
            "guard.reasons = true in an experiment.",
            highlight=False,
            soft_wrap=True,
        )


def _run(path: Path, scheduler: str | None, point: int, replication: int) -> pl.DataFrame:
    """The facts of one run of a trace."""

    from sil.outcome.trace_diff import runs_of
    from sil.trace.facts import read_facts

    facts = read_facts(_file(path))
    runs = [run for run in runs_of(facts) if run[:2] == (point, replication)]
    names = [name for _, _, name in runs]
    if not names:
        fail(f"{path}: there is no replication {replication} of point {point} in this trace")
    if scheduler is None and len(names) > 1:
        known = ", ".join(names)
        fail(f"{path}: there are several schedulers in this trace; choose with --scheduler: {known}")
    if scheduler is not None and scheduler not in names:
        fail(f"{path}: there is no scheduler '{scheduler}' in this trace; there are {', '.join(names)}")
    return facts.filter(point=point, replication=replication, scheduler=scheduler or names[0])


def _file(path: Path) -> Path:
    return path / "trace.parquet" if path.is_dir() else path


def _list(title: str, items: list[str]) -> None:
    more = f", and {len(items) - SHOWN:,} more" if len(items) > SHOWN else ""
    text = ", ".join(items[:SHOWN]) or "none"
    out.print(f"{title}: {text}{more}.", highlight=False, soft_wrap=True, markup=False)


def _s(seconds: float) -> str:
    """To the millisecond, where there are any."""
    return f"{seconds:,.3f}".rstrip("0").rstrip(".") + " s"
