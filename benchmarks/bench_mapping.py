"""How fast are SJS and PJS, compared with the reference and with one pass over the matrix?

* Unstructured: random ETC matrices in which every job and every machine has its own class. In a
  consistent one, a machine that is faster for one job is faster for all.
* By class: 5 job classes x 10 machine classes, given as such; all machines idle, or with different
  ready times. Finding such classes in a whole matrix is timed separately.
* PJS on 40 machines, 5 clusters of 4 among them, with several shares of jobs that can run in parallel.

Times are medians of whole calls of `schedule`. "SJS in full" is a complete Min-min plus Max-min; SJS itself
stops Max-min once Min-min is certain to be better.
Run with `python -m benchmarks.bench_mapping`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.record import keep
from scheduler.mapping.etc import EtcMatrix
from scheduler.mapping.greedy import MaxMin, MinMin, Sjs
from scheduler.mapping.pjs import Pjs
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.table import ByClass
from scheduler.ports import AnyScheduler
from sil.studies.collins_george.cs1 import ReferencePjs, ReferenceSjs

SEED = 2001
SIZES = ((100, 100), (1_000, 142), (10_000, 1_000))
HUGE = (1_000_000, 10_000)
TEXTBOOK_CELLS = 1_000_000
"""The largest matrix for the reference SJS, in cells; larger ones take hours."""
CLASSES = (5, 10)
PJS_JOBS, PJS_CLUSTERS, PJS_CLUSTER_SIZE, PJS_LOOSE = 1_000, 5, 4, 20
SHARES = (0.1, 0.5, 0.75, 0.9, 1.0)
PJS_INSTANCES = 12

Matrix = NDArray[np.float64]


def median_ms(call: Callable[[], object], least_s: float = 0.3) -> float:
    """Median time of one call, over at least three calls and `least_s`, after an untimed one."""
    call()
    took_s: list[float] = []
    while len(took_s) < 3 or sum(took_s) < least_s:
        began = time.perf_counter()
        call()
        took_s.append(time.perf_counter() - began)
    return 1e3 * statistics.median(took_s)


def unstructured(n: int, m: int, kind: str, rng: np.random.Generator) -> Matrix:
    """Range-based, of high heterogeneity, as in Braun et al. 2001."""
    etc_s = rng.uniform(1.0, 3000.0, (n, 1)) * rng.uniform(1.0, 1000.0, (n, m))
    return np.sort(etc_s, axis=1) if kind == "consistent" else etc_s


def measure_unstructured(n: int, m: int, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    etc_s = unstructured(n, m, kind, rng)
    problem = MappingProblem.from_matrix(etc_s)
    ready_s = np.zeros(m)
    found: dict[str, Any] = {
        "sjs_ms": median_ms(lambda: Sjs().schedule(problem)),
        "one_pass_ms": median_ms(lambda: (ready_s + etc_s).min(axis=1)),
    }
    if n * m <= TEXTBOOK_CELLS:
        found["textbook_ms"] = median_ms(lambda: ReferenceSjs().schedule(problem), least_s=0.0)
    return {"jobs": n, "machines": m, "kind": kind, **found}


def measure_by_class(n: int, m: int, kind: str, rng: np.random.Generator) -> dict[str, Any]:
    etc = EtcMatrix(
        rng.uniform(1.0, 100.0, CLASSES), rng.integers(0, CLASSES[0], n), rng.integers(0, CLASSES[1], m)
    )
    problem = MappingProblem.from_etc(etc, rng.uniform(0.0, 100.0, m) if kind == "busy" else None)
    found: dict[str, Any] = {"sjs_ms": median_ms(lambda: Sjs().schedule(problem))}
    if (n, m) != HUGE:
        etc_s, ready_s = etc.dense(), problem.ready_times.machine_s
        whole = MappingProblem.from_matrix(etc_s)
        found["finding_classes_ms"] = median_ms(lambda: ByClass.of(whole))
        found["one_pass_ms"] = median_ms(lambda: (ready_s + etc_s).min(axis=1))
    if n * m <= TEXTBOOK_CELLS:
        found["textbook_ms"] = median_ms(lambda: ReferenceSjs().schedule(problem), least_s=0.0)
    return {"jobs": n, "machines": m, "kind": kind, **found}


def pjs_problem(share: float, rng: np.random.Generator) -> MappingProblem:
    """As in the first case study: random times, parallel ones about a third of the others."""
    machines = PJS_CLUSTERS * PJS_CLUSTER_SIZE + PJS_LOOSE
    etc_s = rng.uniform(1.0, 100.0, (PJS_JOBS, machines))
    parallel_s = rng.uniform(1.0, 100.0, (PJS_JOBS, PJS_CLUSTERS)) / 3.0
    parallel_s[rng.random(PJS_JOBS) >= share] = np.inf
    members = np.arange(PJS_CLUSTERS * PJS_CLUSTER_SIZE).reshape(PJS_CLUSTERS, -1).tolist()
    return MappingProblem.from_matrix(np.hstack([etc_s, parallel_s]), None, members)


def measure_pjs(share: float, rng: np.random.Generator) -> dict[str, Any]:
    """Means over instances."""
    problems = [pjs_problem(share, rng) for _ in range(PJS_INSTANCES)]
    schedulers: dict[str, AnyScheduler] = {
        "pjs_ms": Pjs(),
        "sjs_ms": Sjs(),
        "min_min_ms": MinMin(),
        "max_min_ms": MaxMin(),
    }
    mean = {
        name: statistics.fmean(median_ms(partial(made.schedule, problem), 0.05) for problem in problems)
        for name, made in schedulers.items()
    }
    naive_ms = median_ms(partial(ReferencePjs().schedule, problems[0]), least_s=0.0)
    naive_sjs_ms = median_ms(partial(ReferenceSjs().schedule, problems[0]), least_s=0.0)
    return {
        "share": share,
        **mean,
        "to_sjs_in_full": mean["pjs_ms"] / (mean["min_min_ms"] + mean["max_min_ms"]),
        "to_sjs": mean["pjs_ms"] / mean["sjs_ms"],
        "textbook_to_textbook": naive_ms / naive_sjs_ms,
    }


def shown(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


def sjs_table(title: str, rows: list[dict[str, Any]], by_class: bool) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("jobs x machines", no_wrap=True)
    table.add_column("", no_wrap=True)
    names = ["SJS, ms", "textbook / SJS", "SJS / one pass", *(["finding classes, ms"] if by_class else [])]
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        textbook, one_pass = row.get("textbook_ms"), row.get("one_pass_ms")
        figures = [
            row["sjs_ms"],
            textbook and textbook / row["sjs_ms"],
            one_pass and row["sjs_ms"] / one_pass,
            *([row.get("finding_classes_ms")] if by_class else []),
        ]
        table.add_row(f"{row['jobs']:,} x {row['machines']:,}", row["kind"], *map(shown, figures))
    return table


def pjs_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(title=f"PJS, {PJS_JOBS:,} jobs x 40 machines in 5 clusters of 4 and 20 loose")
    names = (
        "possibly parallel",
        "PJS, ms",
        "SJS, ms",
        "PJS / SJS in full",
        "PJS / SJS",
        "textbook PJS / SJS",
    )
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        figures = (row["pjs_ms"], row["sjs_ms"], row["to_sjs_in_full"], row["to_sjs"])
        table.add_row(f"{row['share']:.0%}", *map(shown, figures), shown(row["textbook_to_textbook"]))
    return table


def main() -> None:
    rng = np.random.default_rng(SEED)
    kinds = ("inconsistent", "consistent")
    whole = [measure_unstructured(n, m, kind, rng) for n, m in SIZES for kind in kinds]
    by_class = [measure_by_class(n, m, kind, rng) for n, m in (*SIZES, HUGE) for kind in ("idle", "busy")]
    in_parallel = [measure_pjs(share, rng) for share in SHARES]
    console = Console()
    console.print(sjs_table("SJS, unstructured", whole, by_class=False))
    console.print(sjs_table("SJS, 5 x 10 classes", by_class, by_class=True))
    console.print(pjs_table(in_parallel))
    results = {"unstructured": whole, "by_class": by_class, "pjs": in_parallel}
    print(f"Kept in {keep('mapping', SEED, rounded(results)).name}.")


def rounded(results: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()} for row in rows]
        for name, rows in results.items()
    }


if __name__ == "__main__":
    main()
