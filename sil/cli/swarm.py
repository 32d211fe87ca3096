"""`sil swarm`: thousands of small simulations with random faults."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from scheduler.messages import counted
from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.parameters import Argument, CommandOption
from sil.cli.progress import TerminalProgress, progress
from sil.declared import Setting, Settings
from sil.report.listing import Listing, number, text
from sil.workers.execution import Execution
from site_db.files.formats import is_whole

if TYPE_CHECKING:
    from scheduler.rules import Violation
    from sil.swarm.campaign import CampaignFindings, Swarm
    from sil.swarm.case import Case

MAX_SHRUNK = 5
"""The most violations that are made smaller; the other seeds are listed."""


@dataclass(frozen=True, kw_only=True)
class Cases(Settings):
    """The cases of a swarm.

    * `seeds`: The seeds A to B - 1; a single number is one seed.
    * `minutes`: Go on for this time instead, from the first seed on.
    * `fault`: Only faults of this kind, like 'lost messages'. May be repeated. Default: all kinds.
    * `case`: Carry out the case in this file, which an earlier swarm wrote.
    * `jobs`: The most jobs of a case.
    * `machines`: The most machines of a case.
    """

    seeds: Annotated[str, Setting(metavar="A:B")] = "0:1000"
    minutes: Annotated[float | None, Setting(least=0.01)] = None
    fault: list[str] | None = None
    case: Path | None = None
    jobs: Annotated[int, Setting(least=1, most=1_000)] = 20
    machines: Annotated[int, Setting(least=1, most=1_000)] = 4


def swarm(
    scheduler: Annotated[str | None, Argument()] = None,
    *,
    cases: Cases,
    unreached: bool = False,
    out_folder: Annotated[Path, CommandOption(name="--out")] = Path("sil-swarm"),
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Test resource managers and schedulers in thousands of small simulations with random faults.

    * `scheduler`: A scheduler or resource manager to test, like mine:Manager. Default: the built-in managers
      under all built-in schedulers.
    * `unreached`: List the lines of the managers that were not reached.
    * `out_folder`: Folder for the cases that violate a rule.

    Each seed is one case: a site, jobs, a scheduler, and a random subset of the kinds of faults, such as lost
    messages, partitions, crashes of the manager and failing machines. Invariants are checked on each trace.
    A case that breaks one is made as small as possible and written to a file. Equal seeds give equal results.
    A single seed, or a case, is shown fact by fact.
    """
    from sil.experiment.output_folder import make_usable
    from sil.runs.under_test import resolve
    from sil.swarm.campaign import Swarm, carried_out
    from sil.swarm.case import Case
    from sil.swarm.faults import KINDS

    for kind in cases.fault or ():
        if kind not in KINDS:
            console.fail(f"there is no kind of fault '{kind}'; expected one of: {', '.join(KINDS)}")
    under_test = None if scheduler is None else resolve(scheduler).require_in_process("a swarm")
    tested = Swarm(under_test, tuple(cases.fault or KINDS), cases.jobs, cases.machines)
    tested.check()
    if cases.case is not None:
        _carry_out(tested, tested.replayed(Case.read(cases.case)), as_json)
        return
    wanted = _seeds(cases.seeds)
    if len(wanted) == 1 and cases.minutes is None:
        _carry_out(tested, tested.case(wanted.start), as_json)
        return
    with where.executor() as executor, progress("cases") as bars:
        bar = TerminalProgress(bars, scheduler or "built-in managers")
        for_s = None if cases.minutes is None else 60.0 * cases.minutes
        found = carried_out(tested, wanted, executor, for_s, bar.progressed)
    smallest = {}
    for seed in [*found.violations][:MAX_SHRUNK]:
        make_usable(out_folder)
        smallest[seed] = out_folder / f"seed-{seed}.json"
        tested.smallest(seed, found.violations[seed]).write(smallest[seed])
    if as_json:
        violations = {
            str(seed): {**_as_dict(violation), "smallest": str(smallest.get(seed, ""))}
            for seed, violation in found.violations.items()
        }
        console.print_json(
            {
                "cases": found.n_cases,
                "violations": violations,
                "cases_with": dict(sorted(found.cases_with.items())),
                "violations_with": dict(sorted(found.violations_with.items())),
                "facts": dict(found.facts),
            }
        )
    else:
        _report(found, tested, unreached)
    if found.is_interrupted:
        console.print_note(f"Interrupted: these are the results of {found.n_cases:,} cases.")
    command = ["sil", "swarm", *([] if scheduler is None else [scheduler]), "--case"]
    console.exit_on_faults(_sentences(found, smallest, command))
    if found.is_interrupted:
        raise Exit(console.EXIT_INTERRUPTED)


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    seeds = range(0)
    if is_whole(first) and is_whole(last if colon else first):
        seeds = range(int(first), int(last) if colon else int(first) + 1)
    if not seeds:
        console.fail(f"--seeds is '{text}'; expected a number, or two like 0:1000, the second one greater")
    return seeds


def _carry_out(tested: Swarm, case: Case, as_json: bool) -> None:
    from sil.trace.held import with_texts
    from sil.trace.recorder import ROW

    verdict = tested.verdict(case)
    facts = [with_texts(dict(zip(ROW, fact, strict=True))) for fact in verdict.facts]
    if as_json:
        violation = None if verdict.violation is None else _as_dict(verdict.violation)
        console.print_json({"case": asdict(case), "violation": violation, "facts": facts})
    else:
        kinds = ", ".join(fault.kind for fault in case.faults) or "no faults"
        title = (
            f"{counted(len(case.jobs), 'job')} on {counted(case.n_machines, 'machine')} ({case.machines}), "
            f"{'; '.join([case.scheduler, kinds, *case.policies])}"
        )
        columns = [
            number("time (s)", "time_s", ",.3f"),
            *(text(name) for name in ROW[1:] if name != "shares"),
        ]
        print_listings([Listing("facts", title, columns, facts)])
    if verdict.violation is not None:
        console.exit_with_fault(_sentence(verdict.violation))
    if not as_json:
        console.print_line("No rule is broken.")


def _report(found: CampaignFindings, tested: Swarm, unreached: bool) -> None:
    from sil.swarm.campaign import all_lines, relative

    rows = [
        {"fault": kind, "cases": found.cases_with[kind], "violations": found.violations_with[kind]}
        for kind in tested.kinds
    ]
    facts = [{"fact": fact, "times": times} for fact, times in found.facts.most_common()]
    columns = [text("fault"), number("cases"), number("violations")]
    listings = [
        Listing("faults", f"{found.n_cases:,} cases", columns, rows),
        Listing("facts", "What happened in them", [text("fact"), number("times")], facts),
    ]
    lines = all_lines() if tested.under_test is None or unreached else set()
    if tested.under_test is None:
        reached, there = (Counter(path for path, _ in some) for some in (found.lines & lines, lines))
        of_files = [
            {"file": relative(path), "reached": reached[path], "lines": there[path]} for path in sorted(there)
        ]
        title = "Lines of the managers reached, in one case of a hundred"
        listings.append(Listing("lines", title, [text("file"), number("reached"), number("lines")], of_files))
    print_listings(listings)
    left = sorted(lines - found.lines) if unreached else []
    for path in sorted({path for path, _ in left}):
        numbers = ", ".join(str(line) for file, line in left if file == path)
        console.print_line(f"{relative(path)}: not reached: {numbers}")


def _sentences(found: CampaignFindings, smallest: dict[int, Path], command: list[str]) -> list[str]:
    sentences = [
        f"seed {seed}: {_sentence(violation)}"
        + (f" Replay: {shlex.join([*command, str(smallest[seed])])}" if seed in smallest else "")
        for seed, violation in [*found.violations.items()][:MAX_SHRUNK]
    ]
    left = [*found.violations][MAX_SHRUNK:]
    if left:
        shown = ", ".join(map(str, left[:20])) + (", ..." if left[20:] else "")
        sentences.append(f"{len(left)} more seeds: {shown}")
    sentences += [f"{seeds}: {died}" for seeds, died in found.died.items()]
    return sentences


def _as_dict(violation: Violation) -> dict[str, object]:
    return {name: getattr(violation, name) for name in ("rule", "message", "job", "time_s")}


def _sentence(violation: Violation) -> str:
    when = "" if violation.time_s is None else f" at {violation.time_s:.12g} s"
    is_named = violation.job is None or f"job {violation.job}" in violation.message
    which = "" if is_named else f" (job {violation.job})"
    return f"{violation.rule}{when}: {violation.message}{which}."
