"""`sil check`, `sil new-scheduler`, `sil serve-scheduler`: for who writes a scheduler, or has a simulator."""

from __future__ import annotations

import importlib.util
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.markup import escape
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    counted,
    err,
    fail,
    one_sentence_for_bad_input,
    out,
    print_fault,
)


class WhatItDecides(StrEnum):
    """Kinds of schedulers, as the options name them."""

    MAPPING = "mapping"
    SHARED_NODES = "shared-nodes"
    FREE_NODES = "free-nodes"


KindOption = Annotated[
    WhatItDecides | None,
    typer.Option(
        "--kind",
        help="Whether it maps jobs to machines, starts them on shared nodes, or gives rigid jobs nodes of "
        "their own. Found out by asking it, if nothing is said.",
    ),
]


def check(
    scheduler: Annotated[
        str,
        typer.Argument(help="A name, or module:Class; with parameters or without: `my:Sched(alpha=0.5)`."),
    ],
    kind: KindOption = None,
    examples: Annotated[
        int, typer.Option(min=1, help="Small problems to ask, before some larger ones.")
    ] = 200,
    decision_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds of wall time that a decision may take.")
    ] = 5.0,
) -> None:
    """Ask a scheduler many small problems, and tell which rules it keeps and which it breaks.

    Of a rule that is broken, the smallest problems are shown on which it is; the same each time. Exit code 1
    where one is.
    """
    if importlib.util.find_spec("hypothesis") is None:
        fail("the problems are drawn with the package hypothesis; install this one with [contract]")
    from scheduler.registry import Kind
    from sil.workers.processes import begin_early

    begin_early()
    from sil.experiment import checking

    with one_sentence_for_bad_input():
        asked_for = Kind[kind.name] if kind else None
        is_of, found = checking.check(scheduler, asked_for, examples, decision_limit)
    findings = {finding.rule: finding for finding in found}
    table = Table(title=f"{scheduler}: {is_of.does}", title_justify="left")
    for column in ("rule", "what it says", ""):
        table.add_column(column, overflow="fold")
    else_ = "not known" if findings.keys() & set(checking.ENDS_THE_SEARCH) else "[green]holds[/green]"
    for rule, sentence in checking.rules_for(is_of).items():
        table.add_row(rule, sentence, "[red]broken[/red]" if rule in findings else else_)
    out.print(table)
    for finding in findings.values():
        out.print(f"\n[red]{finding.rule}[/red]: {escape(finding.message)}", soft_wrap=True, highlight=False)
        if finding.asked:
            out.print("  asked, in this order:")
        for problem in finding.asked:
            out.print(f"    {escape(problem)}", soft_wrap=True, highlight=False)
    if findings:
        out.print(f"\n{scheduler} breaks {counted(len(findings), 'rule')}.", highlight=False, soft_wrap=True)
        raise typer.Exit(EXIT_FAULT)
    out.print(f"{scheduler} keeps the contract in all of {counted(examples, 'example')}, and larger ones.")


def new_scheduler(
    name: Annotated[
        str, typer.Argument(help="Of the scheduler, and of the package: a word like fair_share.")
    ],
    kind: Annotated[
        WhatItDecides, typer.Option("--kind", help="What it decides about.")
    ] = WhatItDecides.MAPPING,
    folder: Annotated[Path | None, typer.Option("--out", help="Where to write it. Default: NAME.")] = None,
) -> None:
    """Write a package with a scheduler that works, and its test, for you to change and to install."""
    from sil.experiment.new_scheduler import write_package

    with one_sentence_for_bad_input():
        written = write_package(name, kind.name.lower(), folder or Path(name))
    for path in written:
        out.print(f"  {path}", highlight=False, soft_wrap=True)
    where = folder or Path(name)
    out.print(
        f"It is a scheduler as it is. To try it:\n  pip install -e {where}\n  sil check {name}",
        highlight=False,
        soft_wrap=True,
    )


def serve_scheduler(
    name: Annotated[str, typer.Argument(help="Of a scheduler that gives rigid jobs nodes of their own.")],
    bind: Annotated[str, typer.Option("--bind", help="Where to listen.")] = "tcp://127.0.0.1:28000",
    decision_limit: Annotated[
        float, typer.Option(min=0.001, help="Seconds of wall time that a decision may take.")
    ] = 60.0,
) -> None:
    """Offer a scheduler to a simulator that speaks Batsim's protocol, for one simulation.

    It believes that jobs run for their walltime. Exit code 1 where the scheduler breaks a rule.
    """
    if importlib.util.find_spec("zmq") is None:
        fail("Batsim's protocol needs the package pyzmq; install this one with [batsim]")
    from scheduler import registry
    from scheduler.free_nodes.rules import first_violation_on_free_nodes
    from scheduler.free_nodes.runtime_estimates import UserEstimates
    from scheduler.mapping.rules import ScheduleRejected
    from scheduler.registry import Kind
    from sil.batsim.serving import ServedScheduler, serve
    from sil.world.guard.faults import SchedulerFault
    from sil.world.guard.scheduler import GuardedScheduler

    def fault(rule: str, message: str) -> NoReturn:
        print_fault(f"{name} broke the rule {rule}: {message}")
        raise typer.Exit(EXIT_FAULT)

    with one_sentence_for_bad_input():
        wrong = registry.misfit(name, Kind.FREE_NODES)
        if wrong is not None:
            fail(wrong)
        factory = registry.load(name)
        check, limit_s = first_violation_on_free_nodes, decision_limit
        served = ServedScheduler(
            lambda clock: GuardedScheduler(
                factory(), clock, limit_s, lambda timing: None, None, check, cpu_time=None
            ),
            UserEstimates(),
        )
        try:
            serve(served, bind, lambda: err.print(f"{name} listens at {bind}.", highlight=False))
        except ScheduleRejected as rejected:
            fault(rejected.violation.rule, rejected.violation.message)
        except SchedulerFault as error:
            fault(error.rule, error.message)
        except KeyboardInterrupt:
            raise typer.Exit(EXIT_INTERRUPTED) from None
