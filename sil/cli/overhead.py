"""`sil overhead`: decision times over a grid of problems."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    JsonOption,
    fail,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_json,
    print_whole,
)
from sil.cli.progress import ProgressBar, progress

if TYPE_CHECKING:
    import polars as pl

    from sil.outcome.statistics import PowerLaw

CSV, POINTS, FIGURE = "overhead.csv", "points.csv", "overhead"


def overhead(
    scheduler: Annotated[
        str, typer.Argument(help="A name, or module:Class; one that maps jobs to machines.")
    ],
    versus: Annotated[
        list[str] | None, typer.Option("--vs", help="Another scheduler to compare with. May be repeated.")
    ] = None,
    jobs: Annotated[str, typer.Option(metavar="N,...", help="Numbers of jobs.")] = "5,20,50,100,200,500,1000",
    machines: Annotated[str, typer.Option(metavar="M,...", help="Numbers of machines.")] = "5,20,50,100",
    share: Annotated[
        str,
        typer.Option(metavar="P,...", help="Percentages of jobs that can run in parallel, on clusters of 4."),
    ] = "0",
    site: Annotated[
        str | None,
        typer.Option(
            help="Draw jobs and machines from this site: a site file, or the name of a built-in one."
        ),
    ] = None,
    tables: Annotated[int, typer.Option(min=1, help="Random problems of each size.")] = 3,
    repetitions: Annotated[
        int, typer.Option(min=1, help="Measured decisions per problem, after one to warm up.")
    ] = 5,
    decision_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds of wall time that a decision may take.")
    ] = 60.0,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results. Default: sil-overhead.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure decision times over a grid of random problems and fit a growth law.

    Prints medians and quartiles of wall time, excluding garbage collection. Writes overhead.csv (each
    decision), points.csv (each point of the grid) and a figure.
    """
    from sil.workers.processes import begin_early

    begin_early()
    from sil.experiment import overhead as measuring
    from sil.experiment.output_folder import make_usable

    names = list(dict.fromkeys([scheduler, *(versus or [])]))
    folder = out_folder or Path("sil-overhead")
    with one_sentence_for_bad_input():
        for name in names:
            measuring.check_can_be_measured(name)
        ask: measuring.Ask = measuring.random_problem
        counts = {"jobs": _numbers("--jobs", jobs, 1), "machines": _numbers("--machines", machines, 1)}
        shares = _numbers("--share", share, 0, 100)
        if site is not None:
            of_site = measuring.ProblemsOfSite(site)
            ask, counts["machines"], shares = of_site.problem, (of_site.n_machines,), (0,)
        make_usable(folder)
        grid = measuring.Grid(counts["jobs"], counts["machines"], shares, tables, repetitions)
        with progress("problems") as bars:
            bar = ProgressBar(bars, scheduler)
            bar.progressed(0, grid.size)
            measured, faults = measuring.measure(names, grid, ask, decision_limit, bar.progressed)
    for name, fault in faults.items():
        print_fault(f"{name} broke the rule {fault}")
    names = [name for name in names if name not in faults]
    if not names:
        raise typer.Exit(EXIT_FAULT)
    points = measuring.by_point(measured)
    measured.write_csv(folder / CSV)
    points.write_csv(folder / POINTS)
    _draw(points, folder)
    laws = {name: law for name in names if (law := measuring.law_of(measured, name)) is not None}
    if as_json:
        print_json({"points": points.to_dicts(), "laws": {name: asdict(law) for name, law in laws.items()}})
    else:
        print_whole(_table(points, names))
        for name, law in laws.items():
            out.print(_sentence(name, law), highlight=False, soft_wrap=True)
        out.print(f"Results are in {folder}; the figure is {folder / FIGURE}.png.", soft_wrap=True)
    if faults:
        raise typer.Exit(EXIT_FAULT)


def _numbers(option: str, text: str, least: int, most: int = 10_000_000) -> tuple[int, ...]:
    try:
        found = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        fail(f"{option} is '{text}'; expected whole numbers with commas between them, like 5,20,100")
    for number in found:
        if not least <= number <= most:
            fail(f"{option} names {number}; expected {least} to {most:,}")
    return found


def _table(points: pl.DataFrame, names: list[str]) -> Table:
    """Medians (ms) and quartiles of the first scheduler, and the ratio of its medians to each other's."""
    import polars as pl

    name, *others = names
    table = Table(title=f"Decision times of {name}", title_justify="left")
    for column in ("jobs", "machines", "parallel", "median (ms)", "quartiles (ms)", "decisions"):
        table.add_column(column, justify="right")
    for other in others:
        table.add_column(f"ratio to {other}", justify="right")
    keys = ["jobs", "machines", "parallel_percent"]
    rows = points.filter(pl.col("scheduler") == name)
    for k, other in enumerate(others):
        theirs = points.filter(pl.col("scheduler") == other).select(*keys, (pl.col("median_s")).alias(f"{k}"))
        rows = rows.join(theirs, on=keys, how="left", maintain_order="left")
    for row in rows.iter_rows(named=True):
        table.add_row(
            f"{row['jobs']:,}",
            f"{row['machines']:,}",
            f"{row['parallel_percent']} %",
            _ms(row["median_s"]),
            f"{_ms(row['low_s'])} to {_ms(row['high_s'])}",
            f"{row['decisions']:,.0f}",
            *(f"{row['median_s'] / row[f'{k}']:.2f}" for k in range(len(others))),
        )
    return table


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def _sentence(name: str, law: PowerLaw) -> str:
    a, *rest = law.exponents
    shown = " ".join(
        f"{variable}^({x.mean:.2f} ± {x.half_width:.2f})"
        for variable, x in zip(("n", "m"), law.exponents, strict=False)
    )
    model = f"modelled(seconds={law.coefficient:.3g}, a={a.mean:.3f}, b={rest[0].mean if rest else 0:.3f})"
    return (
        f"{name}: {1e6 * law.coefficient:.3g} µs {shown} for n jobs on m resources, to within a factor of "
        f"{law.spread:.2f}; as a decision cost: {model}"
    )


def _draw(points: pl.DataFrame, folder: Path) -> None:
    """Panels by percentage of parallel jobs, by number of machines, or a single one."""
    import polars as pl

    from sil.report.figures import save
    from sil.report.overhead_figures import overhead_figure

    several = points["scheduler"].n_unique() > 1
    by_share = points["parallel_percent"].n_unique() > 1
    most = max(points["machines"].to_list())
    if several and by_share:  # a panel for every pair would be too many
        points = points.filter(pl.col("machines") == most)
        chart = overhead_figure(
            points, "parallel_percent", "scheduler", f"Jobs that can run in parallel (%), on {most} machines"
        )
    elif several:
        chart = overhead_figure(points, "machines", "scheduler")
    else:
        chart = overhead_figure(points, "machines", "parallel_percent")
    for ending in ("png", "svg"):
        save(chart, str(folder / f"{FIGURE}.{ending}"))
