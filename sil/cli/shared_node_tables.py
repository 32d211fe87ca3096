"""What `sil db show` tells of shared nodes, as tables."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from rich.table import Table
from sqlalchemy.orm import Session

from site_db.characterisations import Characterisations
from site_db.prediction_errors import known_errors, schedulers_predicted
from site_db.site_file.tables import SocialContractTable
from site_db.sites import SiteReader

NOT_SHARED = "no"


def contract_text(contract: SocialContractTable | None) -> str:
    """How the nodes of a cluster are shared."""
    if contract is None:
        return NOT_SHARED
    cpu = "" if contract.most_cpu is None else f", {contract.most_cpu:g} CPU in sum"
    return f"{contract.share:.0%} for jobs, up to {contract.most_jobs} on a node{cpu}"


def measured_alone(reader: SiteReader, job_class: str | None = None) -> Table:
    """Jobs as they were measured in isolation: all of them, or those of one class."""
    table = Table(title="Measured in isolation", title_justify="left")
    table.add_column("job class")
    for column in ("tasks", "execution time (s)", "CPU of a task", "memory of a task (MB)"):
        table.add_column(column, justify="right")
    known = Characterisations.of_site(reader.as_file())
    for name, sizes in known.sizes().items():
        for tasks in sizes if job_class in (None, name) else ():
            needs = known.of(name, tasks)
            table.add_row(name, str(tasks), f"{needs.exe_s:,.2f}", f"{needs.cpu:.2f}", f"{needs.memory_mb:g}")
    return table


def predictions(session: Session, reader: SiteReader) -> Table:
    """How wrong turnaround was predicted so far, by scheduler and predictor."""
    table = Table(title="Predicted turnaround so far", title_justify="left")
    for column in ("scheduler", "predictor"):
        table.add_column(column)
    for column in ("scored predictions", "real / predicted, median", "80 % of them"):
        table.add_column(column, justify="right")
    ratios: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for name in schedulers_predicted(session, reader.site.id):
        for error in known_errors(session, reader.site.id, name, reader.site.runs_recorded):
            ratios[error.scheduler, error.predictor].append(error.ratio)
    for (scheduler, predictor), found in sorted(ratios.items()):
        low, median, high = np.quantile(found, (0.1, 0.5, 0.9)).tolist()
        interval = f"{low:.2f} to {high:.2f}"
        table.add_row(scheduler, predictor, f"{len(found):,}", f"{median:.2f}", interval)
    return table
