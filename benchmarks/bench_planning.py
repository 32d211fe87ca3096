"""How often is a plan's answer right, and how fast is it? `python -m benchmarks.bench_planning`

1. A site with only one machine for one job class: a second machine of that kind is the right answer. In how
   many of 100 seeds is it ranked first, settled, at 95 % confidence?
2. Two equal offers of machines whose times are known to 2 %: in how many of 100 seeds are they tied?
3. Runs of the built-in plan per second, with one worker and with two.
"""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.record import keep
from sil.planning.answers import Prepared
from sil.planning.options import AS_IT_IS, one_of_each
from sil.planning.plan_file import Plan, read_plan
from sil.planning.ranking import Criteria, OptionRanking, rank_options
from sil.planning.runs import OptionSamples
from sil.settings import files
from sil.workers.executor import Inline
from sil.workers.processes import Processes
from sil.workers.runner import Runner
from sil.workers.store import Store

SEEDS = 100

SITE = """
name = "starved"
[[machine_classes]]
name = "general"
[[machine_classes]]
name = "special"
[[machines]]
names = ["g[1-6]"]
machine_class = "general"
[[machines]]
names = ["s1"]
machine_class = "special"
[[job_classes]]
name = "ordinary"
[job_classes.sequential_s]
general = 60
[[job_classes]]
name = "picky"
[job_classes.sequential_s]
special = 60
"""

PLAN = {
    "name": "bench",
    "site": "site.toml",
    "schedulers": ["mct"],
    "workload": {
        "jobs": 120,
        "mix": {"ordinary": 4, "picky": 1},
        "arrivals": {"kind": "poisson", "jobs_per_quantum": 0.7, "quantum_s": 10},
    },
    "run_times": {"kind": "lognormal", "coefficient_of_variation": 0.3},
}
STARVED = [
    {"name": "another special one", "changes": ["1 x special"], "price": 10.0},
    {"name": "another general one", "changes": ["1 x general"], "price": 10.0},
]
EQUAL = [
    {
        "name": f"from vendor {vendor}",
        "changes": [{"add": f"1 x {vendor}", "like": "special", "uncertainty": 0.02}],
        "price": 10.0,
    }
    for vendor in ("A", "B")
]


def settled(offers: list[dict[str, object]], folder: Path, seed: int) -> OptionRanking:
    """The ranking of the offers."""
    plan = Plan.model_validate({**PLAN, "offers": offers, "seed": seed})
    prepared = Prepared(plan, folder / "plan.toml", None)
    samples = OptionSamples(prepared.scenario, Runner(Inline()), plan.schedulers[0])
    return rank_options(samples, one_of_each(plan), Criteria(by_price=True))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "site.toml").write_text(SITE)
        each_s = {workers: _seconds(workers, folder) for workers in (1, 2)}
        with ProcessPoolExecutor(2) as pool:
            starved = list(pool.map(partial(settled, STARVED, folder), range(SEEDS)))
            equal = list(pool.map(partial(settled, EQUAL, folder), range(SEEDS)))
        right = sum(
            r.effects[0].option.name == STARVED[0]["name"] and not r.standings.unsettled for r in starved
        )
        ties = sum(bool(r.standings.tied_with(r.effects[0].option.name)) for r in equal)
    n_runs = 6 * RUNS_OF_EACH
    figures = {
        "seeds": SEEDS,
        "of which right and settled": right,
        "replications to settle, median": sorted(r.effects[0].n for r in starved)[SEEDS // 2],
        "of which equal offers are a tie": ties,
        "replications to a tie, median": sorted(r.effects[0].n for r in equal)[SEEDS // 2],
        "runs per second with 1 worker": round(n_runs / each_s[1], 1),
        "runs per second with 2 workers": round(n_runs / each_s[2], 1),
        "speed-up from 1 to 2 workers": round(each_s[1] / each_s[2], 2),
    }
    for what, figure in figures.items():
        print(f"{what}: {figure}")
    print(f"Kept in {keep('planning', 0, figures).name}.")


RUNS_OF_EACH = 100


def _seconds(workers: int, folder: Path) -> float:
    """The time for the site as it is and each offer of the built-in plan, once workers have started."""
    path = files.find("five-offers", "plans", Path())
    plan = read_plan(path)
    prepared = Prepared(plan, path, None)
    with Processes(workers) as executor, Store(folder / f"runs-{workers}.db") as store:
        samples = OptionSamples(prepared.scenario, Runner(executor, store), plan.schedulers[0])
        options = [AS_IT_IS, *one_of_each(plan)]
        samples.ensure(options, 2)  # workers begin, import and load what is compiled
        began_s = time.perf_counter()
        samples.ensure(options, 2 + RUNS_OF_EACH)
        return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
