"""The ids that a log gives its jobs, where these are more than numbers: array tasks, repeated ids, texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cached_property
from numbers import Integral

import numpy as np
import polars as pl
import polars.selectors as cs

from scheduler import UserError
from scheduler.messages import counted, printable
from site_db.files.formats import is_whole
from site_db.files.input_errors import MAX_VALUE

LOG_ID = "log_id"
"""The column of tables of jobs that has them, unless all ids are the numbers of their jobs."""
MAX_COMPARED = 10_000
"""The most ids that are compared with one that does not exist."""


def column_of(ids: Iterable[str], numbers: Sequence[int]) -> list[pl.Series]:
    """The column LOG_ID beside the numbers of jobs, if an id is not the number of its job."""
    texts = list(ids)
    differs = any(text != str(number) for text, number in zip(texts, numbers, strict=True))
    return [pl.Series(LOG_ID, texts, pl.String)] if differs else []


class LogIds:
    """The ids of `jobs` with the column job and, if the log's ids are more than numbers, LOG_ID."""

    def __init__(self, jobs: pl.DataFrame, what: str) -> None:
        """`what` has these jobs, for messages."""
        self._jobs, self._what = jobs, what
        self.differ = LOG_ID in jobs.columns
        """Whether ids differ from the numbers of the jobs."""

    def number(self, given: object) -> int:
        """The number of the job with this id or, without one, this number. Raises UserError."""
        if isinstance(given, Integral) and not isinstance(given, bool):
            return self._known(str(given), [int(given)] if self._has(int(given)) else [])
        if not isinstance(given, str):
            raise UserError(f"{given!r} is no job; expected its number, or its id in the log as a text")
        found = self._called(given) or ([int(given)] if _is_number(given) and self._has(int(given)) else [])
        return self._known(given, found)

    def has(self, given: str) -> bool:
        """Whether there is a job with this id or number."""
        return bool(self._called(given)) or (_is_number(given) and self._has(int(given)))

    def text(self, number: int) -> str:
        """The id of a job of this number."""
        if not self.differ:
            return str(number)
        return next(iter(self._jobs.filter(job=number)[LOG_ID].drop_nulls()), str(number))

    def namesakes(self, number: int) -> list[str]:
        """A sentence on other jobs with the same id, if there are any."""
        others = [other for other in self._called(self.text(number)) if other != number]
        numbers = ", ".join(map(str, others[:5]))
        return [f"{counted(len(others), 'other job')} of this id: {numbers}."] if others else []

    def added_to(self, facts: pl.DataFrame) -> pl.DataFrame:
        """Facts with the column LOG_ID."""
        if not self.differ:
            return facts
        numbers, ids = self._sorted
        jobs = facts["job"].fill_null(-1).to_numpy()
        places = np.searchsorted(numbers, jobs).clip(max=len(numbers) - 1)
        found = pl.Series(places).set(pl.Series(numbers[places] != jobs), None)
        return facts.with_columns(ids.gather(found))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pl.Series]:
        jobs = self._jobs.select("job", LOG_ID).sort("job")
        return jobs["job"].to_numpy(), jobs[LOG_ID]

    def _has(self, number: int) -> bool:
        return abs(number) <= MAX_VALUE and bool((self._jobs["job"] == number).any())

    def _called(self, text: str) -> list[int]:
        if not self.differ:
            return []
        return self._jobs.filter(pl.col(LOG_ID) == text)["job"].unique(maintain_order=True).to_list()

    def _known(self, given: str, found: Sequence[int]) -> int:
        if len(found) == 1 or (_is_number(given) and int(given) in found):
            return int(given) if len(found) > 1 else found[0]
        if found:
            numbers = ", ".join(map(str, found[:5]))
            raise UserError(
                f"{len(found)} jobs in {self._what} have the id {_shown(given)}; give the number of one, as "
                f"in the column job_id of jobs.csv: {numbers}"
            )
        near = get_close_matches(given, self._candidates(given), n=1, cutoff=0.5)
        meant = f"; did you mean {_shown(near[0])}?" if near else ""
        raise UserError(f"there is no job {_shown(given)} in {self._what}{meant}")

    def _candidates(self, given: str) -> list[str]:
        """Ids of about this length; of many, those with the same beginning."""
        ids = pl.col(LOG_ID) if self.differ else pl.col("job").cast(pl.String)
        length = pl.col("id").str.len_chars().cast(pl.Int64)
        near = self._jobs.select(id=ids).drop_nulls().filter((length - len(given)).abs() <= 2)
        alike = near.filter(pl.col("id").str.starts_with(given[: len(given) // 2]))
        return pl.concat([alike, near])["id"].unique(maintain_order=True).head(MAX_COMPARED).to_list()


def ids_in(facts: pl.DataFrame, what: object) -> LogIds:
    """The ids of the jobs that have arrived in a run."""
    return LogIds(
        facts.select("job", cs.by_name(LOG_ID, require_all=False))
        .unique(maintain_order=True)
        .drop_nulls("job"),
        str(what),
    )


def _is_number(text: str) -> bool:
    return is_whole(text) and len(text) <= len(f"{MAX_VALUE:.0f}")


def _shown(text: str) -> str:
    return text if _is_number(text) else f"'{printable(text if len(text) <= 60 else f'{text[:57]}...')}'"
