"""`sil reproduce`: the papers' studies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.parameters import Argument, CommandOption
from sil.cli.progress import TerminalProgress, progress
from sil.report.listing import Listing, number, text
from sil.studies import CASE_STUDIES, SEEDS, STUDIES, WITH_DATA
from sil.workers.execution import Execution

if TYPE_CHECKING:
    from sil.studies.ledger import Findings
    from sil.workers.runner import Runner

SELECTIONS = {"all-pjs": CASE_STUDIES} | {name: (name,) for name in (*STUDIES, *WITH_DATA)}
MIN_SEEDS, USUAL_SEEDS = 2, 20
COLOURS = {"holds": "green", "does not hold": "red"}
"""The colours of verdicts; the others are yellow."""
HEADINGS = {
    "paper": "paper",
    "reading": "read as",
    "ours": "here",
    "rule": "holds if",
    "tolerance": "tolerance",
    "distance": "distance",
    "beside": "beside",
    "caveat": "caveat",
    "sites": "robust",
}
"""The labels of a claim's lines, by column of the ledger."""
WIDTH = 3 + max(map(len, HEADINGS.values()))


def reproduce(
    study: Annotated[str, Argument(known=lambda: SELECTIONS)],
    out_folder: Annotated[Path, CommandOption(name="--out")] = Path("sil-reproduced"),
    data: Path | None = None,
    seeds: Annotated[int | None, CommandOption(min=MIN_SEEDS)] = None,
    sites: Annotated[int, CommandOption(min=0)] = 0,
    *,
    where: Execution,
    as_json: options.Json = False,
) -> None:
    """Reproduce a paper's study and check each of its claims against the results.

    * `study`: A case study of Collins and George 2001 (cs1 to cs4), all four of them (all-pjs), or its future
      work (robustness, preemption); or a study of the papers on CISNE (cisne-table1, cisne-fig3,
      cisne-hybrid) and CISNE-P (cisnep-dyn, cisnep-user-space, cisnep-response); or the placement of
      GPU jobs by fragmentation gradient descent, with --data (fgd).
    * `out_folder`: Folder for the results, with a subfolder for each study.
    * `data`: Folder with the data of fgd: nodes.csv, allocation_seeds.csv, and for each workload W
      pods_W.csv, order_W.csv and noderank_W.csv; also compressed as .csv.gz.
    * `seeds`: Replications of studies with random numbers. Default: 20, but 5 of cisnep-user-space.
    * `sites`: Of cs1 to cs4: also judge each claim on so many sites with perturbed execution times, which
      takes about as many times as long; 20 show what a verdict owes to the synthetic times.

    Prints the claims ledger: the paper's words, how they are read, our result, and a verdict by a rule fixed
    in advance, with its distance from the rule's threshold. Writes page.html (open it in a browser),
    ledger.csv, the tables as CSV, and the paper's figures as PNG, SVG and PDF. The same command resumes an
    interrupted study.
    """
    from sil.experiment.output_folder import make_usable, resumable
    from sil.report.origin import record_origin, sha256_sums
    from sil.studies.page import PAGE, write_findings
    from sil.workers.runner import Runner

    if study not in SELECTIONS:
        console.fail(f"unknown study '{study}'; expected one of {', '.join(SELECTIONS)}")
    if (study in WITH_DATA) != (data is not None):
        console.fail(
            f"{study} reads no data: omit --data" if data else f"{study} needs --data FOLDER, its data"
        )
    if sites and not set(SELECTIONS[study]) <= set(CASE_STUDIES):
        console.fail(f"{study} has no perturbed sites: omit --sites, which is for cs1 to cs4 and all-pjs")
    found: list[dict[str, Any]] = []
    make_usable(out_folder)
    inputs = sha256_sums(*sorted(filter(Path.is_file, data.glob("*")))) if data else {}
    with where.executor() as executor:
        for name in SELECTIONS[study]:
            folder = out_folder / name
            with resumable(out_folder, name=f"{name}.unfinished.db") as store:
                make_usable(folder)
                record_origin(folder, inputs)
                replications = seeds or SEEDS.get(name, USUAL_SEEDS)
                subject = (replications, *([sites] if sites else [])) if data is None else (data,)
                findings = _findings(name, Runner(executor, store), *subject)
                write_findings(folder, findings)
            texts = {key: getattr(findings, key) for key in ("title", "source", "method")}
            claims = [claim.as_row() for claim in findings.claims]
            tables = {title: frame.to_dicts() for title, frame in findings.tables.items()}
            found.append({"name": name, **texts, "claims": claims, "tables": tables})
            if not as_json:
                _show(findings)
                console.print_line(f"Results are in {folder}; open {folder / PAGE} in a browser.\n")
    if as_json:
        console.print_json(found)


def _findings(name: str, runner: Runner, subject: int | Path, *sites: int) -> Findings:
    """Carry out a study with a number of seeds, and perhaps of perturbed sites, or with the data in a folder.
    A fault of a scheduler ends the command."""
    from sil.studies.rules import StudyFailed

    study: Callable[..., Findings] = resolve_name(f"sil.studies.{(STUDIES | WITH_DATA)[name]}")
    try:
        with progress("runs") as bars:
            runner.on_progress = TerminalProgress(bars, name).progressed
            return study(subject, runner, *sites)
    except StudyFailed as failed:
        console.exit_with_fault(str(failed))


def _show(findings: Findings) -> None:
    console.print_line("\n", console.styled(findings.title, "bold"), f" ({findings.source})")
    for title, frame in findings.tables.items():
        kinds = frame.schema.items()
        columns = [number(name, name) if kind.is_numeric() else text(name, name) for name, kind in kinds]
        print_listings([Listing(title, title, columns, frame.to_dicts())])
    for k, claim in enumerate(findings.claims, start=1):
        colour = COLOURS.get(claim.verdict, "yellow")
        console.print_line(f"\n{k}. {claim.claim}: ", console.styled(claim.verdict.value, colour))
        row = claim.as_row()
        for column, heading in HEADINGS.items():
            sentence = row[column]
            if not sentence:
                continue
            line = Table.grid(padding=(0, 2))
            line.add_column(width=WIDTH, style="dim")
            line.add_row(f"   {heading}", sentence)
            console.print_table(line)
