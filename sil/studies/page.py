"""The results of a study as files: a page, the ledger and tables as CSV, and each figure in three formats."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sil.report import FigureKind
from sil.report.page import Cell, Page, PageTable, Part, Section, slug, write_figures, write_page
from sil.studies.ledger import Claim, Findings, ledger_frame
from sil.studies.rules import Verdict
from sil.trace.stream import write_csv
from sil.usable import VERSION

PAGE = "page.html"
LEDGER = "ledger.csv"
CLASSES = {Verdict.HOLDS: "holds", Verdict.DOES_NOT_HOLD: "not"}
"""CSS classes of verdicts; the others are unclear."""


def write_findings(folder: Path, findings: Findings) -> None:
    """Write everything into `folder`, which is created if it does not exist. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(ledger_frame(findings.claims), folder / LEDGER)
    for title, table in findings.tables.items():
        write_csv(table, folder / f"{slug(title)}.csv")
    for name, table in findings.data.items():
        write_csv(table, folder / f"{name}.csv")
    page = study_page(findings)
    for kind in FigureKind:
        write_figures(folder, kind, page, titled=True)
    write_page(folder / PAGE, page)


def study_page(findings: Findings) -> Page:
    note = (
        "Each verdict follows from the results by the rule beside it, which was fixed before the run; below "
        "it "
        "is the distance from the rule's threshold (negative: on the side on which the claim does not hold). "
        "A claim that an input was chosen to meet is a calibration, and one that the algorithm ensures holds "
        "by construction, whatever its rule says, unless even so it does not hold. A verdict that fewer than "
        "three quarters of the perturbed sites confirm depends on the site, and one that another admissible "
        "input does not confirm depends on the input. An interval is the mean ± half-width at 95 % "
        "confidence; those of distances are wide enough for all cases of a rule to be in theirs with 95 % "
        "confidence together."
    )
    claims = PageTable(
        ["Claim of the paper", "Paper", "Result here", "Verdict", "Holds if"],
        [_row(claim) for claim in findings.claims],
        "text",
    )
    return Page(
        findings.title,
        f"{findings.source}. {findings.method}",
        sections=[
            Section("Claims", note, [Part(table=claims)]),
            *([Section("Figures", parts=findings.drawings)] if findings.drawings else []),
            *(Section(title, parts=[Part(table=_table(table))]) for title, table in findings.tables.items()),
        ],
        footer=f"Version {VERSION}.",
    )


def _row(claim: Claim) -> list[Cell | str]:
    of = claim.as_row()
    labels = {"beside": "Beside", "caveat": "Caveat", "sites": "Robust"}
    beside = [f"{label}: {of[column]}" for column, label in labels.items() if of[column]]
    return [
        claim.claim,
        Cell(of["paper"], below=of["reading"] and f"Read as: {of['reading']}"),
        Cell(claim.ours, below=". ".join(beside)),
        Cell(claim.verdict, below=of["distance"], kind=f"verdict {CLASSES.get(claim.verdict, 'unclear')}"),
        Cell(of["rule"], below=of["tolerance"] and f"Tolerance: {of['tolerance']}"),
    ]


def _table(table: pl.DataFrame) -> PageTable:
    return PageTable(table.columns, [[str(cell) for cell in row] for row in table.rows()])
