"""Which reader and writer a log needs, by its name."""

from __future__ import annotations

from pathlib import Path

from sil.workload.batsim_json import read_batsim_json, write_batsim_json
from sil.workload.job_log import JobLog
from sil.workload.swf import read_swf, write_swf
from sil.workload.swf_rules import Rules


def read_log(path: Path, rules: Rules, processors: int | None) -> JobLog:
    """A log of the Standard Workload Format, or a workload of Batsim's where the name says JSON. Raises
    BadLog."""
    return read_batsim_json(path, processors) if _is_json(path) else read_swf(path, rules, processors)


def write_log(path: Path, log: JobLog) -> None:
    """Raises BadLog where the file cannot be written."""
    (write_batsim_json if _is_json(path) else write_swf)(path, log)


def _is_json(path: Path) -> bool:
    return ".json" in (suffix.lower() for suffix in path.suffixes)
