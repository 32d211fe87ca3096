"""What a study found, as files: a page, the ledger and tables as CSV, and each figure in three formats."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape

from sil.report import figures
from sil.report.experiment import script_safe, vega
from sil.settings.code_version import package_version
from sil.studies.findings import Findings
from sil.studies.ledger import ledger_frame

KINDS = ("png", "svg", "pdf")
PAGE = "page.html"
LEDGER = "ledger.csv"


def write_findings(folder: Path, findings: Findings) -> None:
    """Write everything into `folder`, which is made where it does not exist. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger_frame(findings.claims).write_csv(folder / LEDGER)
    for title, table in findings.tables.items():
        table.write_csv(folder / f"{_file_name(title)}.csv")
    for drawing in findings.drawings:
        for kind in KINDS:
            figures.save(
                drawing.chart.properties(title=drawing.title), str(folder / f"{drawing.name}.{kind}")
            )
    charts = {drawing.name: figures.styled(drawing.chart).to_dict() for drawing in findings.drawings}
    loader = ChoiceLoader([PackageLoader("sil.studies", "."), PackageLoader("sil.report", ".")])
    environment = Environment(loader=loader, autoescape=select_autoescape(default=True))
    page = environment.get_template("page.html.j2").render(
        f=findings, version=package_version(), charts=script_safe(json.dumps(charts)), vega=vega()
    )
    (folder / PAGE).write_text(page, encoding="utf-8")


def _file_name(title: str) -> str:
    """A title as the name of a file: table-1-share for "Table 1: share (%)"."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")
