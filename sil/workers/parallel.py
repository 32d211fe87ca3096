"""Many cases on several processes, with the same outcome on any number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from sil.studies.kept_results import KeptResults
from sil.studies.run_options import Course
from sil.workers.processes import end_workers, lead_own_group, worker_context

Case = TypeVar("Case")
Result = TypeVar("Result")


def done_by(
    carry_out: Callable[[Case], Result],
    cases: Sequence[Case],
    course: Course,
    begin_worker: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> list[Result]:
    """What each case comes to, in their order. Each process begins with `begin_worker(*given)`.

    Cases that an interrupted study has kept are not done again. Raises what a case raises, and then does no
    more of them.
    """
    kept = KeptResults(course.kept)
    keys = [kept.key((carry_out.__module__, carry_out.__qualname__, case)) for case in cases]
    results: dict[int, Result] = {index: kept[key] for index, key in enumerate(keys) if key in kept}
    left = [index for index in range(len(cases)) if index not in results]
    course.on_progress(len(results), len(cases))
    with ProcessPoolExecutor(course.workers, worker_context(), _begin, (begin_worker, given)) as pool:
        try:
            under_way = {pool.submit(carry_out, cases[index]): index for index in left}
            for future in as_completed(under_way):
                index = under_way[future]
                results[index] = future.result()
                kept.keep(keys[index], results[index])
                course.on_progress(len(results), len(cases))
        except KeyboardInterrupt:
            end_workers()
            raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[index] for index in range(len(cases))]


def _begin(begin_worker: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    lead_own_group()
    if begin_worker is not None:
        begin_worker(*given)
