"""How fast is a complete replay of a log, compared with a bare EASY over the same arrays?

From opening the log to closing the trace, without start-up. Each case runs in its own process, long ones
once, the others three times, of which the best counts; the baseline (`bare_easy`) runs in the same
process. The logs of the archive are not part of the project; if ../shared does not have them, synthetic
ones replace them, and the output says so. Run with `python -m benchmarks.bench_replay`; one case: `python
-m benchmarks.bench_replay KTH-SP2`.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bare_easy import easy_starts
from benchmarks.record import keep
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin
from sil.workload.swf import read_swf, write_swf

LOGS = Path(__file__).parent.parent.parent / "shared" / "oracles" / "swf"
SEED = 1
RUNS = 3


@dataclass(frozen=True)
class Case:
    """A log of the archive, or a synthetic one with this number of jobs."""

    scheduler: str
    jobs: int
    processors: int
    load: float
    log: str = ""
    has_baseline: bool = True
    runs: int = RUNS

    def file(self, folder: Path) -> Path:
        """The log as a file; generated if it is synthetic or missing."""
        there = LOGS / f"{self.log}.swf.gz"
        if self.log and there.exists():
            return there
        made = Lublin().jobs(self.jobs, self.processors, np.random.default_rng(SEED))
        path = folder / "lublin.swf"
        write_swf(path, made.at_load(self.load))
        return path


CASES = {
    "KTH-SP2": Case("easy", 28_481, 100, 0.69, "KTH-SP2"),
    "CTC-SP2": Case("easy", 77_199, 338, 0.84, "CTC-SP2"),
    "KTH-SP2, conservative": Case("conservative", 28_481, 100, 0.69, "KTH-SP2"),
    "80,640 processors": Case("easy", 295_540, 80_640, 0.9, runs=1),
    "1,000,000 jobs": Case("easy", 1_000_000, 256, 0.9, has_baseline=False, runs=1),
}


def measure(case: Case) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = case.file(folder)
        warm_up = read_swf(path).slice(0, 500)
        Replay(warm_up).run(resolve(case.scheduler), folder)
        took_s = []
        for _ in range(case.runs):
            began = time.perf_counter()
            Replay(read_swf(path)).run(resolve(case.scheduler), folder)
            took_s.append(time.perf_counter() - began)
        log = read_swf(path)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        bare = _bare_jobs_per_s(log, case.runs) if case.has_baseline else None
    rate = len(log.jobs) / min(took_s)
    return {
        "synthetic": path.suffix == ".swf",
        "jobs": len(log.jobs),
        "seconds": round(min(took_s), 2),
        "jobs_per_s": round(rate),
        "bare_jobs_per_s": None if bare is None else round(bare),
        "bare_over_this": None if bare is None else round(bare / rate, 2),
        "peak_mb": round(peak_mb),
    }


def _bare_jobs_per_s(log: JobLog, runs: int) -> float:
    submit_s, run_s, size, estimate_s = log.jobs.select("submit_s", "run_s", "processors", "estimate_s")
    columns = submit_s.to_list(), run_s.to_list(), size.to_list(), estimate_s.to_list()
    took_s = []
    for _ in range(runs):
        began = time.perf_counter()
        easy_starts(*columns, log.processors)
        took_s.append(time.perf_counter() - began)
    return len(log.jobs) / min(took_s)


def main() -> None:
    table = Table(title="Replays under EASY, where nothing else is said", title_justify="left")
    for column in ("case", "jobs", "s", "jobs/s", "bare jobs/s", "bare / this", "peak MB"):
        table.add_column(column, justify="left" if column == "case" else "right")
    results = {}
    for name in CASES:
        command = [sys.executable, "-m", "benchmarks.bench_replay", name]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[name] = found = json.loads(printed)
        shown = [found[key] for key in ("jobs", "seconds", "jobs_per_s", "bare_jobs_per_s")]
        texts = ["" if value is None else f"{value:,}" for value in shown]
        ratio = "" if found["bare_over_this"] is None else f"{found['bare_over_this']:.1f}"
        label = f"{name} (synthetic)" if found["synthetic"] else name
        table.add_row(label, *texts, ratio, f"{found['peak_mb']:,}")
    Console().print(table)
    print(f"Kept in {keep('replay', SEED, results).name}.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(CASES[sys.argv[1]])))
    else:
        main()
