"""The report of a replayed log; its figures are small for logs of any length.

`names` are all schedulers of a report in order, including those that have no jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

Jobs = Mapping[str, pl.DataFrame]
"""The jobs by scheduler, as in jobs.csv."""
