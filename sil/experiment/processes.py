"""Worker processes: they begin with everything imported, and nothing else of this process."""

from __future__ import annotations

import multiprocessing
import os
from functools import cache
from multiprocessing.context import ForkServerContext, SpawnContext

LOADED = ["sil.experiment.wiring"]
"""What the workers need, loaded once: they are forked from a server that has it."""


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
