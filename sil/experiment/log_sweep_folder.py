"""The results folder of a sweep over logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sil.experiment.log_sweep import LogSweep, run_sweep
from sil.experiment.output_folder import UNFINISHED, make_usable
from sil.outcome.sweep_comparison import SweepComparison
from sil.settings.code_version import package_version, scheduler_source
from sil.trace.csv_tables import write_csv
from sil.trace.json_text import json_text
from sil.workers.executor import Executor, Listener
from sil.workers.store import Store
from sil.workload.slices import SlicedLog
from site_db.files.written import no_link

TABLE = "sweep.csv"
PARQUET = "sweep.parquet"
SUMMARY = "summary.json"
PRINTED = "printed"


def sweep_into(out: Path, sweep: LogSweep, executor: Executor, listener: Listener) -> SweepComparison:
    """Carry out a sweep, or what is left of an interrupted one, and write its results into `out`.

    Raises UserError and what `run_sweep` raises.
    """
    make_usable(out)
    out = out.absolute()  # a scheduler may change the working directory
    for old in (TABLE, PARQUET, SUMMARY):
        (out / old).unlink(missing_ok=True)
    with Store(out / UNFINISHED) as store:
        table = run_sweep(sweep, executor, listener, store, out / PRINTED)
        comparison = SweepComparison(table)
        write_csv(table, out / TABLE)
        table.write_parquet(out / PARQUET)
        text = json_text(summary(sweep, comparison))
        no_link(out / SUMMARY).write_text(text + "\n", encoding="utf-8")
        store.remove()
    return comparison


def summary(sweep: LogSweep, comparison: SweepComparison) -> dict[str, Any]:
    """The content of summary.json."""
    return {
        "logs": [_described(sliced) for sliced in sweep.logs],
        "order": sweep.settings.order,
        "seed": sweep.settings.seed,
        "version": package_version(),
        "scheduler_source": scheduler_source(),
        **comparison.as_dict(),
    }


def _described(sliced: SlicedLog) -> dict[str, Any]:
    log = sliced.log
    return {
        "log": log.name,
        "acknowledge": log.header.get("acknowledge", ""),
        "part": list(log.part),
        "jobs": len(log.jobs),
        "processors": log.processors,
        "load": log.load,
        "days": log.span_s / 86_400.0,
        "repairs": list(log.notes),
        "slices": [part.name for part in sliced.slices],
        "warm_up_jobs": [part.warm_up_jobs for part in sliced.slices],
        "cool_down_jobs": [part.cool_down_jobs for part in sliced.slices],
    }
