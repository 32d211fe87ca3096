"""Many cases on several processes, with the same outcome on any number of them."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

from sil.studies.findings import OnProgress

Case = TypeVar("Case")
Result = TypeVar("Result")


def done_by(
    carry_out: Callable[[Case], Result],
    cases: Sequence[Case],
    workers: int,
    on_progress: OnProgress,
    begin_worker: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> list[Result]:
    """What each case comes to, in their order. Each process begins with `begin_worker(*given)`.

    Raises what a case raises, and then does no more of them.
    """
    done: list[Result] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, begin_worker, given) as pool:
        try:
            for part in pool.map(carry_out, cases, chunksize=1 + len(cases) // (16 * workers)):
                done.append(part)
                on_progress(len(done), len(cases))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return done
