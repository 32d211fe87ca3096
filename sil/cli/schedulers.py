"""`sil schedule`, `sil schedulers`, and for authors of schedulers `sil check`, `sil new-scheduler` and
`sil serve-scheduler`."""

from __future__ import annotations

import ast
import importlib.util
import shlex
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from click.exceptions import Exit
from rich.table import Table

from scheduler import registry
from scheduler.messages import counted
from scheduler.rules import Kind
from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.parameters import CommandOption
from sil.report.listing import Column, Listing, number, text

if TYPE_CHECKING:
    from scheduler.registry import SchedulerSpec
    from sil.experiment.checking import Checked

COLUMNS = (
    text("scheduler"),
    number("makespan (s)", "makespan_s", ",.3f"),
    number("sum of completion times (s)", "sum_completion_times_s", ",.3f"),
    Column("decision (ms)", lambda row: f"{1e3 * row['decision_s']:,.2f}", is_number=True),
)


def schedule(
    matrix: Path,
    scheduler: list[str] | None = None,
    ready: Path | None = None,
    clusters: Path | None = None,
    as_json: options.Json = False,
    out_file: Annotated[Path | None, CommandOption(name="--out")] = None,
    decision_limit: options.DecisionLimit = 3600.0,
) -> None:
    """Map one ETC matrix; print makespan, sum of completion times and decision time.

    * `matrix`: Expected seconds, a row per job and a column per machine: text with commas, semicolons, tabs
      or blanks; the HCSP format (a line `jobs machines 0`, then a value per line, job by job); or .npy.
    * `scheduler`: May be repeated. Default: all built-in ones except the optimising.
    * `ready`: A file with each machine's ready time in seconds. Default: 0.
    * `clusters`: A file with a line per cluster: its machines, counted from 0. The matrix has a column for
      each after those of the machines: seconds in parallel on the whole cluster.
    * `out_file`: Write job, machine (clusters follow them), start, completion to this CSV file.
    """
    from sil.experiment.matrix import map_matrix, read_problem, write_mapping
    from sil.runs.under_test import resolve
    from sil.world.guard.faults import SchedulerFault

    mapped, faults = [], []
    names = scheduler or [
        name for name in registry.ON_MACHINES if name not in registry.OPTIMISING | registry.IN_BATCHES
    ]
    under_test = [resolve(name).require_in_process("a matrix", Kind.MAPPING) for name in names]
    given = read_problem(matrix, ready, clusters)
    for each in under_test:
        try:
            mapped.append(map_matrix(given, each, decision_limit))
        except SchedulerFault as fault:
            faults.append(fault.by(each.label))
    if out_file is not None:
        write_mapping(out_file, mapped)
    rows = [
        {
            "scheduler": result.scheduler,
            "makespan_s": result.schedule.makespan_s,
            "sum_completion_times_s": result.schedule.sum_completion_s,
            "decision_s": result.decision_s,
        }
        for result in mapped
    ]
    if as_json:
        console.print_json(rows)
    else:
        title = f"{counted(len(given.etc_s), 'job')} on {counted(given.n_machines, 'machine')}"
        if n_clusters := len(given.members):
            title += f" in {counted(n_clusters, 'cluster')}"
        print_listings([Listing("mappings", title, COLUMNS, rows)])
    for result in mapped:
        if n := len(result.schedule.wait_reasons):
            left = f"{result.scheduler} left {n:,} of {counted(len(given.etc_s), 'job')} waiting"
            console.print_note(f"{left}; the times exclude them")
    console.exit_on_faults(faults)


def schedulers(as_json: options.Json = False) -> None:
    """List the schedulers by kind: built-in ones and plug-ins."""
    from sil.runs.under_test import resolve

    groups: dict[str, list[Entry]] = {}
    for entry in entries(lambda name: resolve(name).require_in_process("a list").spec):
        groups.setdefault(entry.kind or "plug-in", []).append(entry)
    if as_json:
        console.print_json(
            [entry._asdict() | {"kind": name} for name, listed in groups.items() for entry in listed]
        )
        return
    for heading, listed in groups.items():
        console.print_line(f"{heading}:")
        table = Table.grid(padding=(0, 2))
        for entry in listed:
            table.add_row(f"  {entry.name}", entry.target if "(" in entry.target else entry.summary)
        console.print_table(table)
    console.print_line(
        "A class of your own is named module:Class, relative to the current folder; --json has details."
    )


class Entry(NamedTuple):
    """A scheduler in a listing: its name, kind if known, origin, and the first line of its docstring."""

    name: str
    kind: Kind | None
    target: str
    source: str
    summary: str


def entries(resolve: Callable[[str], SchedulerSpec]) -> Iterator[Entry]:
    """All named schedulers, for a listing; plug-ins are found by `resolve`. The summary of a plug-in that
    cannot be loaded says so."""
    for kind, targets in registry.BUILT_IN.items():
        for name, target in targets.items():
            yield Entry(name, kind, target, "built in", _summary_in_source(name))
    for point in registry.plugins():
        source = f"package {point.dist.name if point.dist else '?'}"
        try:
            spec = resolve(point.name)
        except registry.SchedulerNotLoaded as error:
            yield Entry(point.name, None, point.value, source, f"cannot be loaded: {error}")
        else:
            yield Entry(point.name, spec.kind, point.value, source, spec.summary)


def _summary_in_source(name: str) -> str:
    """The first line of the docstring of a built-in scheduler, without importing what is compiled for it."""
    module, _, class_name = registry.resolve(name).target.partition(":")
    source = (Path(registry.__file__).parents[1] / Path(*module.split("."))).with_suffix(".py")
    statements = ast.parse(source.read_text(encoding="utf-8")).body
    classes = {found.name: found for found in statements if isinstance(found, ast.ClassDef)}
    return (ast.get_docstring(classes[class_name]) or "").partition("\n")[0]


class Problems(StrEnum):
    """The problems of a contract: by kind, and on nodes of which jobs request parts."""

    MAPPING = "mapping"
    TIME_SHARED = "shared-nodes"
    FREE_NODES = "free-nodes"
    CONSUMABLE_NODES = "consumable-nodes"
    CLUSTERS = "clusters"


def check(
    scheduler: str,
    kind: Problems | None = None,
    examples: Annotated[int, CommandOption(min=1)] = 200,
    decision_limit: options.DecisionLimit = 5.0,
    as_json: options.Json = False,
) -> None:
    """Test a scheduler on many small problems and list the rules that it keeps and breaks.

    * `scheduler`: A name, or module:Class; with parameters or without: `my:Sched(alpha=0.5)`.
    * `kind`: Whether it maps jobs to machines, starts them on time-shared nodes, starts rigid jobs on free
      nodes, or on nodes with CPUs, memory and GPUs, or sends them to several clusters. Default: the kind that
      its class declares, else mapping.
    * `examples`: Number of small problems, before some larger ones.

    For each broken rule, shows the smallest problems that break it, the same on every run. Exit code 1 if
    any rule is broken.
    """
    from sil.workers.nursery import begin_early

    begin_early()
    from sil.experiment import checking

    checked = checking.check(scheduler, kind, examples, decision_limit)
    rules = checking.rules_for(checked.kind)
    if as_json:
        of_rule = {finding.rule: finding._asdict() for finding in checked.findings}
        console.print_json(
            [
                {"rule": rule, "meaning": meaning, "verdict": checked.verdicts[rule]} | of_rule.get(rule, {})
                for rule, meaning in rules.items()
            ]
        )
    else:
        _print_verdicts(scheduler, checked, rules)
        if not checked.findings:
            kept = f"{scheduler} keeps the contract in {counted(examples, 'example')}"
            console.print_line(f"{kept} and some larger ones.")
    if checked.findings:
        raise Exit(console.EXIT_FAULT)


def _print_verdicts(scheduler: str, checked: Checked, rules: Mapping[str, str]) -> None:
    from scheduler.rules import RIGHT_KIND

    title = f"{scheduler}: {checked.kind.does}"
    table = Table("rule", "meaning", "verdict", title=title)
    colours = {"holds": "green", "broken": "red"}
    for rule, meaning in rules.items():
        verdict = checked.verdicts[rule]
        table.add_row(rule, meaning, console.styled(verdict, colours.get(verdict, "")))
    console.print_table(table)
    for finding in checked.findings:
        console.print_line("\n", console.styled(finding.rule, "red"), f": {finding.message}")
        if finding.asked:
            console.print_line("  problems, in order:")
        for problem in finding.asked:
            console.print_line(f"    {problem}")
    if any(finding.rule == RIGHT_KIND for finding in checked.findings):
        console.print_line(
            "\nName its kind by --kind, or declare it in the class, as in kind = 'free-nodes'."
        )
    if checked.findings:
        console.print_line(f"\n{scheduler} breaks {counted(len(checked.findings), 'rule')}.")


def new_scheduler(
    name: str, kind: Kind = Kind.MAPPING, folder: Annotated[Path | None, CommandOption(name="--out")] = None
) -> None:
    """Write an installable package with a working scheduler and its test, as a starting point.

    * `name`: Name of the scheduler and of its package: a word like fair_share.
    * `kind`: Kind of scheduling problem.
    * `folder`: Folder to write. Default: NAME.
    """
    from sil.experiment.new_scheduler import write_package

    written = write_package(name, kind, folder or Path(name))
    for path in written:
        console.print_line(f"  {path}")
    install = shlex.join(["pip", "install", "-e", str(folder or name)])
    console.print_line(f"The scheduler works as it is. To try it:\n  {install}\n  sil check {name}")
    if kind is Kind.FREE_NODES:
        console.print_line(f"  sil check {name} --kind consumable-nodes")
    if kind is Kind.CLUSTERS:
        console.print_line(f"  sil run two-sites --scheduler home --scheduler {name}")


def serve_scheduler(
    name: str, bind: str = "tcp://127.0.0.1:28000", decision_limit: options.DecisionLimit = 60.0
) -> None:
    """Serve a scheduler to a simulator that speaks Batsim's protocol, for one simulation.

    * `name`: A scheduler for rigid jobs on free nodes.
    * `bind`: Address to listen on.

    Run-time estimates are the jobs' walltimes. Exit code 1 if the scheduler breaks a rule.
    """
    if importlib.util.find_spec("zmq") is None:
        console.fail("Batsim's protocol needs the package pyzmq; install sil-testbed[batsim]")
    from sil.runs.hosting import serve_scheduler
    from sil.runs.under_test import resolve
    from sil.world.guard.faults import SchedulerFault

    scheduler = resolve(name).require_in_process("serving a simulator", Kind.FREE_NODES)
    try:
        serve_scheduler(
            scheduler, bind, decision_limit, lambda: console.err.print(f"{name} is listening on {bind}.")
        )
    except SchedulerFault as fault:
        console.exit_with_fault(fault.by(name))
