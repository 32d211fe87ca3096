"""Which jobs the statistics of a replay's report are over, and in which blocks schedulers are compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Annotated

from scheduler import UserError
from sil.declared import Setting, Settings


@dataclass(frozen=True)
class Analysis(Settings):
    """Jobs submitted in the first `warm_up_days` and the last `cool_down_days` are replayed, not measured:
    the machine is empty when a log begins, and nothing arrives when it ends.

    * `warm_up_days`: Leave jobs submitted in the first days out of the report's statistics.
    * `cool_down_days`: The same for jobs submitted in the last days.
    * `block_days`: Length of the blocks for intervals of differences between schedulers. Default: 7, or 1 in
      logs of fewer than 8 weeks.
    """

    warm_up_days: Annotated[float, Setting(least=0.0)] = 0.0
    cool_down_days: Annotated[float, Setting(least=0.0)] = 0.0
    block_days: Annotated[float | None, Setting(least=0.01)] = None

    @property
    def is_trimmed(self) -> bool:
        return self.warm_up_days > 0 or self.cool_down_days > 0

    def check(self, span_days: float) -> None:
        """Raise UserError if nothing is left of a log with these days from first to last submission, and
        ValueError for days that are none."""
        if not (
            0 <= self.warm_up_days < inf
            and 0 <= self.cool_down_days < inf
            and (self.block_days is None or 0 < self.block_days < inf)
        ):
            raise ValueError(f"{self} has impossible days")
        if self.is_trimmed and self.warm_up_days + self.cool_down_days >= span_days:
            raise UserError(
                f"{self.warm_up_days:g} days of warm-up and {self.cool_down_days:g} of cool-down leave "
                f"nothing of a log of {span_days:,.1f} days; give fewer"
            )

    def terms(self, n_measured: int) -> Iterator[tuple[str, str]]:
        """Terms for the head of a page, if not all jobs count."""
        if self.is_trimmed:
            yield (
                "Measured",
                f"{n_measured:,} jobs, without those submitted in the first {self.warm_up_days:g} and the "
                f"last {self.cool_down_days:g} days",
            )


ALL_JOBS = Analysis()
