"""Options that several commands have."""

from __future__ import annotations

import os
from typing import Annotated

import typer

WorkersOption = Annotated[
    int, typer.Option(min=1, help="Processes to run on. The results do not depend on the number.")
]
WORKERS = os.cpu_count() or 1
DaskOption = Annotated[
    str | None,
    typer.Option(
        help="Run on a Dask cluster instead, with the same results: tcp://HOST:8786, or its scheduler file."
    ),
]
