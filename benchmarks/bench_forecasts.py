"""How good are forecasts of starts and ends?

Jobs that waited, when they were submitted, on two logs of the Parallel Workloads Archive (where these are
beside the project, see `tests.oracles`) and on a simulated site. In the same run: the scheduler's own plan,
by the users' time limits, and binomial bounds on past waits (BMBP). Run with
`python -m benchmarks.bench_forecasts`.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from sil.api.logs import read_log
from sil.forecast.scoring import score
from tests.oracles import FOLDER
from tests.sil.forecast.simulated import replayed, simulated_site

SEED, JOBS, SAMPLES = 1, 1_000, 200
SITES = ("KTH-SP2", "CTC-SP2", "simulated")
SCHEDULERS = ("easy", "easy_sjbf")


def main() -> None:
    table = Table("site", "scheduler", "method", "of", title=f"{JOBS:,} jobs each, in {SAMPLES} samples")
    for name in ("in 80 % interval (%)", "mean width (s)", "mean error (s)", "ms a forecast"):
        table.add_column(name, justify="right")
    kept = []
    for site in sys.argv[1:] or SITES:
        path = FOLDER / "swf" / f"{site}.swf.gz"
        if site != "simulated" and not path.exists():
            continue
        log = simulated_site(20_000, SEED) if site == "simulated" else read_log(path)
        for scheduler in SCHEDULERS:
            run, began_s = replayed(log, scheduler), time.perf_counter()
            scored = score(run, JOBS, SAMPLES, SEED, lambda done: None)
            ms = 1e3 * (time.perf_counter() - began_s) / JOBS
            for each in scored.scores:
                found = each._asdict()
                kept.append({"site": site, "scheduler": scheduler, **found, "ms": round(ms, 1)})
                of_interval = ["-", "-"]
                if each.coverage is not None and each.width_s is not None:
                    of_interval = [f"{100 * each.coverage:.1f}", f"{each.width_s:,.0f}"]
                cells = (site, scheduler, each.method, each.of, *of_interval, f"{each.error_s:,.0f}")
                table.add_row(*cells, f"{ms:.0f}")
    Console().print(table)
    Console().print(f"Kept in {keep('forecasts', SEED, kept).name}.")


if __name__ == "__main__":
    main()
