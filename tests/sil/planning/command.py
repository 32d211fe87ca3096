"""A command that asks for many runs: python -m tests.sil.planning.command FOLDER RUNS SECONDS [DASK]."""

from __future__ import annotations

import sys
from pathlib import Path

from sil.planning.runs import Runs
from sil.workers.engine import Engine, NoEngine
from site_db.kept_runs import KeptRuns
from tests.sil.planning.works import Root


def main(folder: Path, runs: int, takes_s: float, dask: str | None = None) -> None:
    works = [Root(number, folder, takes_s) for number in range(runs)]
    with KeptRuns(folder / "kept.db") as kept:
        try:
            with Engine(2, dask).opened() as workers:
                Runs(workers, kept).results(works)
        except NoEngine as error:
            print(error)
        except KeyboardInterrupt:
            print("interrupted")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
