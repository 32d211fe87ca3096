"""`sil overhead`: decision times over a grid of problems."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.parameters import CommandOption
from sil.cli.progress import TerminalProgress, progress
from sil.declared import Setting, Settings
from sil.report.listing import Column, Listing, Row, number
from site_db.files.access import no_link
from site_db.files.formats import is_whole

if TYPE_CHECKING:
    import polars as pl

CSV, POINTS, FIGURE = "overhead.csv", "points.csv", "overhead"


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(Settings):
    """The problems of which decisions are measured.

    * `jobs`: Numbers of jobs.
    * `machines`: Numbers of machines.
    * `share`: Percentages of jobs that can run in parallel, on clusters of 4.
    * `site`: Draw jobs and machines from this site: a site file, or the name of a built-in one.
    * `tables`: Random problems of each size.
    * `repetitions`: Measured decisions per problem, after one to warm up.
    * `decision_limit_s`: Seconds of wall time that a decision may take.
    """

    jobs: Annotated[str, Setting(metavar="N,...")] = "5,20,50,100,200,500,1000"
    machines: Annotated[str, Setting(metavar="M,...")] = "5,20,50,100"
    share: Annotated[str, Setting(metavar="P,...")] = "0"
    site: str | None = None
    tables: Annotated[int, Setting(least=1)] = 3
    repetitions: Annotated[int, Setting(least=1)] = 5
    decision_limit_s: Annotated[float, Setting(least=0.001)] = 60.0


def overhead(
    scheduler: str,
    vs: list[str] | None = None,
    *,
    problems: ProblemOptions,
    out_folder: Annotated[Path, CommandOption(name="--out")] = Path("sil-overhead"),
    as_json: options.Json = False,
) -> None:
    """Measure decision times over a grid of random problems and fit a growth law.

    * `scheduler`: A name, or module:Class; one that maps jobs to machines.
    * `vs`: Another scheduler to compare with. May be repeated.
    * `out_folder`: Folder for the results.

    Prints medians and quartiles of wall time, excluding garbage collection. Writes overhead.csv (each
    decision), points.csv (each point of the grid) and a figure.
    """
    from sil.workers.nursery import begin_early

    begin_early()
    from sil.experiment import overhead as measuring
    from sil.experiment.output_folder import make_usable

    names = list(dict.fromkeys([scheduler, *(vs or [])]))
    for name in names:
        measuring.measurable(name)
    sizes = _numbers("--jobs", problems.jobs, 1), _numbers("--machines", problems.machines, 1)
    shares = _numbers("--share", problems.share, 0, 100)
    grid = measuring.Grid(*sizes, shares, problems.tables, problems.repetitions)
    ask: measuring.Ask = measuring.random_problem
    if problems.site is not None:
        ask, n_machines = measuring.problems_of_site(problems.site)
        grid = replace(grid, machines=(n_machines,), shares=(0,))
    make_usable(out_folder)
    with progress("problems") as bars:
        bar = TerminalProgress(bars, scheduler)
        bar.progressed(0, grid.size)
        limit_s = problems.decision_limit_s
        measured, faults = measuring.measure(names, grid, ask, limit_s, bar.progressed)
    if len(faults) < len(names):
        _report(measured, [name for name in names if name not in faults], out_folder, as_json)
    console.exit_on_faults(fault.by(name) for name, fault in faults.items())


def _report(measured: pl.DataFrame, names: list[str], folder: Path, as_json: bool) -> None:
    from sil.experiment import overhead as measuring
    from sil.trace.stream import write_csv

    points = measuring.by_point(measured)
    write_csv(measured, folder / CSV)
    write_csv(points, folder / POINTS)
    _draw(points, folder)
    laws = {name: law for name in names if (law := measuring.law_of(measured, name)) is not None}
    if as_json:
        as_dicts = {name: asdict(law) for name, law in laws.items()}
        console.print_json({"points": points.to_dicts(), "laws": as_dicts})
    else:
        print_listings([_listing(points, names)])
        for name, law in laws.items():
            a, *rest = law.exponents
            shown = " ".join(
                f"{variable}^({x.mean:.2f} ± {x.half_width:.2f})"
                for variable, x in zip(("n", "m"), law.exponents, strict=False)
            )
            b = rest[0].mean if rest else 0
            console.print_line(
                f"{name}: {1e6 * law.coefficient:.3g} µs {shown} for n jobs on m resources, to within a "
                f"factor of {law.spread:.2f}; as a decision cost: modelled(seconds={law.coefficient:.3g}, "
                f"a={a.mean:.3f}, b={b:.3f})"
            )
        console.print_line(f"Results are in {folder}; the figure is {folder / FIGURE}.png.")


def _numbers(option: str, text: str, least: int, most: int = 10_000_000) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(map(is_whole, parts)):
        console.fail(f"{option} is '{text}'; expected whole numbers with commas between them, like 5,20,100")
    found = tuple(dict.fromkeys(map(int, parts)))
    for n in found:
        if not least <= n <= most:
            console.fail(f"{option} names {n}; expected {least} to {most:,}")
    return found


def _listing(points: pl.DataFrame, names: list[str]) -> Listing:
    """Medians (ms) and quartiles of the first scheduler, and the ratio of its medians to each other's."""
    import polars as pl

    name, *others = names
    keys = ["jobs", "machines", "parallel_percent"]
    rows = points.filter(scheduler=name)
    for other in others:
        theirs = points.filter(scheduler=other).select(*keys, their_s="median_s")
        ratio = pl.col("median_s") / pl.col("their_s")
        rows = rows.join(theirs, on=keys, how="left", maintain_order="left")
        rows = rows.with_columns(ratio.alias(f"ratio to {other}")).drop("their_s")

    def quartiles(row: Row) -> str:
        return f"{_ms(row['low_s'])} to {_ms(row['high_s'])}"

    columns = [
        number("jobs"),
        number("machines"),
        Column("parallel", lambda row: f"{row['parallel_percent']} %", is_number=True),
        Column("median (ms)", lambda row: _ms(row["median_s"]), is_number=True),
        Column("quartiles (ms)", quartiles, is_number=True),
        number("decisions", spec=",.0f"),
        *(number(ratio, ratio, ".2f") for ratio in rows.columns if ratio.startswith("ratio to ")),
    ]
    return Listing("points", f"Decision times of {name}", columns, rows.to_dicts())


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"


def _draw(points: pl.DataFrame, folder: Path) -> None:
    import polars as pl

    from sil.report.figures import overhead_figure
    from sil.report.vega_lite import save

    chart = overhead_figure(points, "machines", "parallel_percent")
    if points["scheduler"].n_unique() > 1:
        chart = overhead_figure(points, "machines", "scheduler")
        if points["parallel_percent"].n_unique() > 1:  # a panel for every pair would be too many
            most = max(points["machines"].to_list())
            title = f"Jobs that can run in parallel (%), on {most} machines"
            points = points.filter(pl.col("machines") == most)
            chart = overhead_figure(points, "parallel_percent", "scheduler", title)
    for ending in ("png", "svg"):
        save(chart, no_link(folder / f"{FIGURE}.{ending}"))
