"""How good are forecasts of starts and ends?

Jobs that waited, when they were submitted, on two logs of the Parallel Workloads Archive (where these are
beside the project, see `tests.oracles`) and on a simulated site. In the same run: the same forecasts with
intervals calibrated by those that came true before, the scheduler's own plan, by the users' time limits, and
binomial bounds on past waits (BMBP). Run with `python -m benchmarks.bench_forecasts`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.calibration import Calibration
from benchmarks.past_waits import predicted_waits
from benchmarks.record import keep
from sil.api.logs import read_log
from sil.forecast.forward import KnownJobs
from sil.forecast.questions import LEVELS, ForecastErrors, ForecastTime, PastForecast, past_forecasts, waited
from tests.oracles import FOLDER
from tests.sil.forecast.simulated import replayed, simulated_site

SEED, JOBS, SAMPLES = 1, 1_000, 200
SITES = ("KTH-SP2", "CTC-SP2", "simulated")
SCHEDULERS = ("easy", "easy_sjbf")


def scores(run: KnownJobs, found: Sequence[PastForecast]) -> Iterator[dict[str, Any]]:
    """By method, of the starts and ends of jobs that waited."""
    for of in ("start", "end"):
        some = [each for each in found if each.of == of]
        calibration, calibrated, true_s = Calibration(), list[ForecastTime](), [each.true_s for each in some]
        for each in some:
            calibrated.append(
                ForecastTime.of(each.times_s, calibration.levels(float(run.submit_s[each.job])))
            )
            calibration.add(each.times_s, each.true_s)
        methods = {"forecast": [ForecastTime.of(each.times_s) for each in some], "calibrated": calibrated}
        if of == "start":
            methods["past waits"] = by_past_waits(run, some)
        for method, made in methods.items():
            yield {"method": method, "of": of, **ForecastErrors.of(made, true_s)._asdict()}
        planned = [ForecastTime(*3 * (each.planned_s,)) for each in some]
        yield {"method": "plan", "of": of, "error_s": ForecastErrors.of(planned, true_s).error_s}


def by_past_waits(run: KnownJobs, found: Sequence[PastForecast]) -> list[ForecastTime]:
    """Predictions from the waits of jobs that waited, as all have that are scored."""
    jobs, sizes = waited(run), run.policy.log.jobs["processors"].to_numpy()
    predicted = predicted_waits(run.submit_s[jobs], run.start_s[jobs], sizes[jobs], LEVELS)
    of_job = dict(zip(jobs.tolist(), predicted, strict=True))
    return [ForecastTime(*(wait_s + run.submit_s[each.job] for wait_s in of_job[each.job])) for each in found]


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
            found = list(past_forecasts(run, JOBS, SAMPLES, SEED))
            ms = 1e3 * (time.perf_counter() - began_s) / JOBS
            for each in scores(run, found):
                kept.append({"site": site, "scheduler": scheduler, **each, "ms": round(ms, 1)})
                of_interval = ["-", "-"]
                if "coverage" in each:
                    of_interval = [f"{100 * each['coverage']:.1f}", f"{each['width_s']:,.0f}"]
                cells = (site, scheduler, each["method"], each["of"], *of_interval, f"{each['error_s']:,.0f}")
                table.add_row(*cells, f"{ms:.0f}")
    Console().print(table)
    Console().print(f"Kept in {keep('forecasts', SEED, kept).name}.")


if __name__ == "__main__":
    main()
