"""`sil slurm rehearse` with the real controller: a month that it has decided itself reproduces, and planted
regressions are found and named."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import polars as pl

from sil import rehearse
from sil.rehearsal.run import JobsVerdict, read_rehearsal
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from tests.commands import succeeded
from tests.sil.rehearsal.months import CONF, month, row, written
from tests.sil.slurm.installed import needs_slurm

N_JOBS = 60


def decided_by_slurm(folder: Path) -> tuple[Path, Path]:
    """Accounting of random jobs, with the starts that the controller gives them."""
    random_ = random.Random(1)
    jobs = [(1_000, 1, "n1", "main", 0)]
    for _ in range(N_JOBS):
        submit_s = jobs[-1][4] + 1 + int(random_.expovariate(1 / 900))
        run_s = 60 + int(random_.expovariate(1 / 3_000))
        jobs.append((run_s, random_.choice((1, 2, 4)), "", random_.choice(("main", "long")), submit_s))

    def rows(starts: dict[int, tuple[int, str]]) -> list[str]:
        return [
            row(
                str(number), submit_s, start_s, start_s + run_s, cpus=cpus, node=node, partition=partition,
                user=f"u{number % 3}", minutes=240,
            )
            for number, (run_s, cpus, _, partition, submit_s) in enumerate(jobs, start=1)
            for start_s, node in (starts.get(number, (submit_s, "n1")),)
        ]  # fmt: skip

    out = folder / "decided"
    out.mkdir()
    log, conf = written(folder, *rows({}))
    found = month(folder, *rows({}))
    replay = Replay(replace(found.log, notes=()), slurm_step_s=30.0)
    assert replay.run(resolve(f"slurm: {conf}"), out).fault is None
    origin_s = 1_000 - 120.0 if found.begun else 1_000.0
    table = pl.read_csv(out / "jobs.csv").select("job_id", "starting_time", "allocated_resources")
    starts = {
        number: (round(start_s + origin_s), f"n{int(node) + 1}")
        for number, start_s, node in table.iter_rows()
    }
    written(folder, *rows(starts))
    return log, conf


@needs_slurm
def test_a_month_reproduces_and_planted_regressions_are_found_and_named(tmp_path: Path) -> None:
    log, conf = decided_by_slurm(tmp_path)
    bug = tmp_path / "bug.conf"
    bug.write_text(CONF.replace("Nodes=n[1-2] MaxTime=7-0", "Nodes=n1 MaxTime=7-0"))
    out = tmp_path / "out"
    result = succeeded(
        "slurm",
        "rehearse",
        log,
        "--conf",
        conf,
        "--conf",
        bug,
        "--conf",
        conf,
        "--time-zone",
        "UTC",
        "--set",
        "PriorityWeightAge=1001",
        "--out",
        out,
    )
    printed = result.stdout
    assert printed.index("The month reproduces: compare") < printed.index("under slurm")
    found = read_rehearsal(out)
    assert found.reproduction.all.near.mean == 1.0
    planted = {variant.name: variant for variant in found.variants}
    of_bug = next(variant for name, variant in planted.items() if "bug" in name)
    assert of_bug.verdict is not JobsVerdict.NONE
    assert ("long: Nodes", "n[1-2]", "n1") in of_bug.settings
    harmless = next(variant for name, variant in planted.items() if "bug" not in name and "1001" in name)
    assert harmless.verdict is JobsVerdict.NONE
    assert (out / "rehearsal.html").stat().st_size > 10_000


@needs_slurm
def test_a_rehearsal_in_python_counts_refused_jobs_but_not_those_that_ran_at_the_beginning(
    tmp_path: Path,
) -> None:
    began = row("4", 10, 20, 5_000, node="n3")
    log, conf = written(tmp_path, row("1", 0, 0, 1_000), began, *(row(k, 2_000, 2_000, 3_000) for k in "23"))
    down, fewer = tmp_path / "down.conf", tmp_path / "fewer.conf"
    down.write_text(CONF.replace("Default=YES", "State=DOWN"))
    fewer.write_text(CONF.replace("Nodes=ALL", "Nodes=n[1-2]"))
    found = rehearse(log, conf, down, fewer, folder=tmp_path / "out", progress=False)
    assert found.reproduction.all.jobs == 2
    verdicts = [(each.verdict, each.refused_more) for each in found.variants]
    assert verdicts == [(JobsVerdict.REGRESSION, 2), (JobsVerdict.NONE, 0)]
    assert (tmp_path / "out" / "rehearsal.html").is_file()
