"""A scheduler of Batsim's from the start of its process to the end of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sil.batsim.command import started
from sil.batsim.endpoint import Endpoint
from sil.batsim.naming import outside


@contextmanager
def conversation(name: str, printed: Path, limit_s: float) -> Iterator[Callable[[str], str]]:
    """How to ask the scheduler of that name (see `Endpoint.ask`), which has `limit_s` for an answer. What its
    process prints goes into the file `printed`.

    Raises SchedulerNotLoaded, and SchedulerFault where it cannot be started.
    """
    with started(outside(name), printed) as (address, process):
        endpoint = Endpoint(address, limit_s, (lambda: None) if process is None else process.how_it_ended)
        try:
            yield endpoint.ask
        finally:
            endpoint.close()
