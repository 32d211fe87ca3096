"""A command that runs many items: python -m tests.sil.workers.command FOLDER RUNS SECONDS [DASK]."""

from __future__ import annotations

import sys
from pathlib import Path

from scheduler import UserError
from sil.workers.execution import Execution
from sil.workers.executor import Interrupted
from sil.workers.runner import Runner
from sil.workers.store import Store
from tests.sil.workers.works import Root, items_of


def main(folder: Path, runs: int, takes_s: float, dask: str | None = None) -> None:
    works = [Root(number, folder, takes_s) for number in range(runs)]
    with Store(folder / "runs.db") as store:
        try:
            with Execution(2, dask).executor() as executor:
                Runner(executor, store, total=runs).results(items_of(works))
        except UserError as error:
            print(error)
        except Interrupted as interrupted:
            print("interrupted:", interrupted)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
