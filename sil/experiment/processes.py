"""Worker processes: they begin with the large libraries imported, and nothing else of this process."""

from __future__ import annotations

import multiprocessing
import os
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext

LOADED = ["scheduler.mapping.pjs", "scipy.special", "site_db.importing", "site_db.experience"]
"""What workers are forked with, from a server that has it. Not Polars, which begins threads when loaded."""


@cache
def worker_context() -> ForkServerContext | SpawnContext:
    """How worker processes are made, where fork servers are not known from nothing."""
    # Schedulers under test may iterate over sets of strings: the same seed, the same order.
    os.environ["PYTHONHASHSEED"] = "0"
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context
