"""How fast is a complete replay of a log in both engines, compared with a bare EASY over the same arrays?

From opening the log to trace, jobs.csv and statistics, without start-up, in CPU seconds. Each case runs in
its own process, long ones once, the others three times, of which the best counts; engines and the baseline
(`bare_easy`) take turns. The logs of the archive are not part of the project; if ../shared does not have
them, synthetic ones replace them, and the output says so. Run with `python -m benchmarks.bench_replay`; one
case: `python -m benchmarks.bench_replay KTH-SP2 FILE`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bare_easy import easy_starts
from benchmarks.record import keep
from scheduler.core.identical import IdenticalNodes
from sil.runs.compiled import CODES, CompiledReplay
from sil.runs.on_log import Replay
from sil.runs.simulation import RunKey
from sil.runs.under_test import resolve
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import TRACE, trace_stream
from sil.trace.recorder import CHUNK
from sil.workload.job_log import JobLog
from sil.workload.lublin import Lublin
from sil.workload.swf import read_swf
from sil.workload.swf_writing import write_swf
from sil.world.core.engine import ranks, run_compiled
from sil.world.core.identical import LoopOnIdenticalNodes
from sil.world.core.jobs import RigidJobs
from sil.world.events import ORDERS

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
    "1,000,000 jobs": Case("easy", 1_000_000, 256, 0.9, runs=1),
}


def measure(case: Case, path: Path) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log = read_swf(path)
        took_s: dict[str, list[float]] = {"compiled": [], "trace": [], "loop": [], "harness": [], "bare": []}
        largest_mb = 0.0
        for engine in (Engine.COMPILED, Engine.HARNESS):
            _replay(log.slice(0, 500), case.scheduler, engine, folder)  # loads what is compiled
        for k in range(case.runs):
            took_s["compiled"].append(
                cpu_s(lambda: _replay(read_swf(path), case.scheduler, Engine.COMPILED, folder))
            )
            if k == 0:
                largest_mb = peak_mb()
            took_s["trace"].append(cpu_s(lambda: only_trace(read_swf(path), case.scheduler, folder)))
            took_s["loop"].append(cpu_s(lambda: _loop(log, case.scheduler)))
            took_s["harness"].append(
                cpu_s(lambda: _replay(read_swf(path), case.scheduler, Engine.HARNESS, folder))
            )
            if case.has_baseline:
                took_s["bare"].append(cpu_s(_bare(log)))
    n, best_s = len(log.jobs), {name: min(times_s) for name, times_s in took_s.items() if times_s}
    rates = {f"{name}_jobs_per_s": round(n / time_s) for name, time_s in best_s.items()}
    of_compiled = {
        f"{name}_over_compiled": round(best_s["compiled"] / best_s[name], 3)
        for name in best_s.keys() - {"compiled"}
    }
    return {
        "synthetic": path.suffix == ".swf",
        "jobs": n,
        "compiled_s": round(best_s["compiled"], 2),
        **rates,
        **dict(sorted(of_compiled.items())),
        "peak_mb": round(largest_mb),
    }


def peak_mb() -> float:
    """Of this process; what getrusage has is that of the process which started it, too."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return float(status["VmHWM"].removesuffix("kB")) / 1024


def cpu_s(function: Callable[[], object]) -> float:
    began_s = time.process_time()
    function()
    return time.process_time() - began_s


def _replay(log: JobLog, scheduler: str, engine: Engine, folder: Path) -> None:
    Replay(log, engine=engine).run(resolve(scheduler), folder)


def _compiled(log: JobLog, scheduler: str) -> CompiledReplay:
    replay = CompiledReplay.of(log, resolve(scheduler), Estimates.USER, ORDERS["default"])
    assert not isinstance(replay, str), replay
    return replay


def only_trace(log: JobLog, scheduler: str, folder: Path) -> None:
    with trace_stream(folder / TRACE, Replay(log).description()) as trace:
        for chunk in _compiled(log, scheduler).chunks(log.jobs, RunKey(0, 0, scheduler)):
            trace.write(chunk.facts)


def _loop(log: JobLog, scheduler: str) -> None:
    """Without tables of the facts."""
    replay, jobs = _compiled(log, scheduler), RigidJobs.of(log.jobs)
    nodes, by = IdenticalNodes(log.processors, replay.policy), CODES[replay.estimates]
    for _ in run_compiled(LoopOnIdenticalNodes(jobs, nodes, ranks(replay.order), by, CHUNK), CHUNK):
        pass


def _bare(log: JobLog) -> Callable[[], object]:
    submit_s, run_s, size, estimate_s = log.jobs.select("submit_s", "run_s", "processors", "estimate_s")
    columns = submit_s.to_list(), run_s.to_list(), size.to_list(), estimate_s.to_list()
    return lambda: easy_starts(*columns, log.processors)


def main() -> None:
    table = Table(title="Replays under EASY, where nothing else is said", title_justify="left")
    columns = {
        "jobs": "jobs",
        "CPU s": "compiled_s",
        "jobs/s": "compiled_jobs_per_s",
        "only trace": "trace_jobs_per_s",
        "loop alone": "loop_jobs_per_s",
        "harness": "harness_jobs_per_s",
        "bare EASY": "bare_jobs_per_s",
        "peak MB": "peak_mb",
    }
    for column in ("case", *columns):
        table.add_column(column, justify="left" if column == "case" else "right")
    results = {}
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.bench_replay", name, str(case.file(Path(folder)))]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results[name] = found = json.loads(printed)
        texts = [f"{found[key]:,}" if key in found else "" for key in columns.values()]
        table.add_row(f"{name} (synthetic)" if found["synthetic"] else name, *texts)
    Console(width=120).print(table)
    print(f"Kept in {keep('replay', SEED, results).name}.")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(CASES[sys.argv[1]], Path(sys.argv[2]))))
    else:
        main()
