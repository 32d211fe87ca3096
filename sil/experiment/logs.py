"""Which reader a log needs, by its name."""

from __future__ import annotations

from pathlib import Path

from sil.workload.batsim_json import read_batsim_json
from sil.workload.job_log import JobLog
from sil.workload.swf import read_swf
from sil.workload.swf_repairs import Rules


def read_log(path: Path, rules: Rules, processors: int | None) -> JobLog:
    """A log of the Standard Workload Format, or a workload of Batsim's where the name says JSON.

    Raises BadLog.
    """
    if ".json" in (suffix.lower() for suffix in path.suffixes):
        return read_batsim_json(path, processors)
    return read_swf(path, rules, processors)
