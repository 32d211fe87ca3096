"""Sweeps over settings of the policy and of replays: each is a replay under them, whatever carries it out."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sil as testbed
from scheduler import UserError
from sil.experiment.log_sweep import Alternative
from sil.outcome.replayed_log import Results
from sil.runs.on_log import Replay
from sil.runs.under_test import SlurmProgram, resolve
from sil.settings.replays import Engine
from sil.site.logs import OfPart
from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process")

CONF = (
    "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nAccountingStorageEnforce=limits\n"
    "PreemptType=preempt/qos\nPreemptMode=REQUEUE\nSchedulerParameters=bf_window=600,bf_interval=30\n"
    "NodeName=n[1-2] CPUs=4 CoresPerSocket=4\nPartitionName=p Nodes=ALL MaxTime=1-0\n"
)
DUMP = "Cluster - 'c':QOS='normal,high'\nAccount - 'a'\nParent - 'a'\nUser - 'u':MaxJobs={}\nUser - 'v'\n"
QOS = "Name|Priority|Preempt\nnormal|0|\nhigh|9|normal\n"
HEADER = "JobID|User|Account|QOS|Partition|Submit|Eligible|Start|End|State|TimelimitRaw|ReqTRES|NodeList\n"
T0 = 1_772_442_000


def write_site(folder: Path) -> None:
    """40 jobs of two users, of which every seventh preempts others, and the files of a policy."""
    rows = [
        f"{k}|{'uv'[k % 3 == 0]}|a|{'high' if k % 7 == 0 else 'normal'}|p|{T0 + 200 * k}|{T0 + 200 * k}|"
        f"{T0 + 200 * k}|{T0 + 200 * k + 300 + 97 * k % 900}|COMPLETED|{20 + k % 40}|"
        f"cpu={1 + k % 4},mem=1G,node=1|n1"
        for k in range(1, 41)
    ]
    files = {"slurm.conf": CONF, "dump-2.cfg": DUMP.format(2), "dump-1.cfg": DUMP.format(1), "qos.txt": QOS}
    for name, text in {**files, "sacct.txt": HEADER + "\n".join(rows) + "\n"}.items():
        (folder / name).write_text(text)


@pytest.fixture
def here(here: Path) -> Path:
    write_site(here)
    return here


BASE = "sacct.txt --nodes slurm.conf --policy qos.txt"
FILES = f"{BASE} --policy slurm.conf --policy dump-2.cfg"


def swept(arguments: str, *more: str) -> pl.DataFrame:
    """The table of a sweep under slurm_backfill."""
    text = f"{arguments} --scheduler slurm_backfill --slices 2 --warm-up-jobs 0 --out out"
    succeeded("sweep", *shlex.split(text), *more)
    return pl.read_csv("out/sweep.csv")


def replayed(most: int, jobs: str, checkpoint_interval_s: float | None) -> dict[str, float]:
    """What a single replay of these files measures."""
    policy = [Path(name) for name in ("slurm.conf", f"dump-{most}.cfg", "qos.txt")]
    log = OfPart(nodes="slurm.conf", policy=policy, jobs=jobs).chosen(Path("sacct.txt"))
    replay = Replay(log, checkpoint_interval_s=checkpoint_interval_s)
    return dict(replay.results(resolve("slurm_backfill"), Path("printed")).statistics)


SINGLE = {
    "slurm_backfill": (CONF, 2, None),
    "slurm_backfill (PriorityWeightFairshare=0)": (CONF.replace("=1000\n", "=0\n"), 2, None),
    "slurm_backfill (SchedulerParameters=bf_interval=900)": (
        CONF.replace("bf_interval=30", "bf_interval=900"),
        2,
        None,
    ),
    "slurm_backfill (PreemptType=preempt/none)": (CONF.replace("preempt/qos", "preempt/none"), 2, None),
    "slurm_backfill (dump-1.cfg)": (CONF, 1, None),
    "slurm_backfill (checkpoint_interval_s=60)": (CONF, 2, 60.0),
}
"""What is compared, and the files and the checkpoints of the single replays."""


def test_each_row_is_that_of_a_replay_with_the_edited_files(here: Path) -> None:
    tables = [
        swept(f"{BASE} --policy slurm.conf --policy 'dump-{{2,1}}.cfg'"),
        swept(FILES, "--set", "PriorityWeightFairshare=0"),
        swept(FILES, "--set", "SchedulerParameters=bf_interval=900"),
        swept(FILES, "--set", "PreemptType=preempt/none"),
        swept(FILES, "--set", "checkpoint_interval_s=60"),
    ]
    rows = pl.concat(tables).unique(["scheduler", "slice"], maintain_order=True)
    assert set(rows["scheduler"]) == set(SINGLE)
    for row in rows.iter_rows(named=True):
        conf, most, interval_s = SINGLE[row["scheduler"]]
        (here / "slurm.conf").write_text(conf)
        found = replayed(most, row["slice"], interval_s)
        assert {name: row[name] for name in found} == pytest.approx(found), row
    waits = rows.filter(pl.col("slice") == "20:40")["waiting_time_mean"]
    assert waits.n_unique() >= 5, "otherwise the settings show nothing"


def test_traces_are_those_of_a_log_read_under_the_edited_file(here: Path) -> None:
    names = ("slurm.conf", "dump-2.cfg", "qos.txt")
    text = "PriorityWeightFairshare=0 SchedulerParameters=bf_interval=900"
    set_there = testbed.read_log("sacct.txt", nodes="slurm.conf", policy=list(names), settings=text)
    (here / "slurm.conf").write_text(
        CONF.replace("=1000\n", "=0\n").replace("bf_interval=30", "bf_interval=900")
    )
    edited = testbed.read_log("sacct.txt", nodes="slurm.conf", policy=list(names))
    scheduler = resolve("slurm_backfill")
    one, other = (
        Replay(log, engine=Engine.HARNESS).facts(scheduler, here / "printed") for log in (set_there, edited)
    )
    assert one.equals(other)


@pytest.mark.processes
def test_results_are_the_same_bytes_inline_and_in_processes(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.experiment.replay.FEW_IN_ALL", 0)
    text = f"sweep {FILES} --scheduler easy --slices 2 --set PriorityWeightFairshare={{0,1}}"
    found = []
    for workers in ("1", "2"):
        succeeded(*shlex.split(text), "--workers", workers, "--out", workers)
        found.append([(here / workers / name).read_bytes() for name in ("sweep.csv", "summary.json")])
    assert found[0] == found[1]


def test_an_interrupted_sweep_over_settings_goes_on_with_the_rest(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.experiment.log_sweep.ITEMS", 1000)
    text = f"sweep {FILES} --scheduler easy --slices 2 --set PriorityWeightFairshare={{0,1}} --out"
    succeeded(*shlex.split(text), "whole")
    results, n = Replay.results, 0

    def interrupt(self: Replay, *given: Any) -> Results:
        nonlocal n
        n += 1
        if n == 4:
            raise KeyboardInterrupt
        return results(self, *given)

    monkeypatch.setattr(Replay, "results", interrupt)
    assert "3 of 6 runs are done" in sil(*shlex.split(text), "out").stderr
    succeeded(*shlex.split(text), "out")
    assert n == 4 + 3
    for name in ("sweep.csv", "summary.json"):
        assert (here / "out" / name).read_bytes() == (here / "whole" / name).read_bytes()


def test_settings_between_which_no_result_differs_are_named_and_others_not(here: Path) -> None:
    text = f"sweep {FILES} --slices 2 --warm-up-jobs 0 --scheduler easy --scheduler slurm_backfill --out out"
    found = " ".join(
        succeeded(*shlex.split(text), "--set", "SchedulerParameters=bf_interval=900").stderr.split()
    )
    same = "the results are the same (2 replays each) with the present settings, SchedulerParameters="
    assert f"under easy, {same}" in found
    assert found.count("the results are the same") == 1, "slurm_backfill has this interval"


def test_a_warm_up_that_is_too_short_for_the_queue_is_named_in_python_and_one_that_is_long_enough_not() -> (
    None
):
    """Waits in a queue of one processor, at a utilisation of 90 %."""
    jobs = pl.DataFrame(
        {"submit_s": [100.0 * k for k in range(400)], "run_s": [40.0, 140.0, 90.0, 90.0] * 100}
    )
    log = testbed.log_from(jobs.with_columns(processors=1), processors=1)

    def notes(jobs: int) -> list[str]:
        return testbed.sweep(log, "fcfs", slices=4, warm_up_jobs=jobs, progress=False).notes

    (note,) = notes(3)
    assert "the warm-up under fcfs is too short: it lasts 0.1 h" in note
    assert "give warm_up_jobs=" in note
    enough = int(note.rpartition("warm_up_jobs=")[2].removesuffix(" or more"))
    assert notes(enough) == []
    assert notes(0) == [], "nobody expects this to be one"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            "log.swf --set PriorityWeightAge=1",
            "changes a slurm.conf, and the policy has none; give --policy slurm.conf",
        ),
        (
            f"{FILES} --set PriorityWeightAges=1",
            "PriorityWeightAges is no key of Slurm; did you mean PriorityWeightAge?",
        ),
        (f"{FILES} --set MaxJobs=1", "MaxJobs=1 cannot change; expected one of PriorityWeightAge, "),
        (
            f"{FILES} --set PriorityWeightAge=x",
            "PriorityWeightAge of slurm.conf is 'x'; expected a number of at least 0",
        ),
        (
            f"{FILES} --set checkpoint_interval_s=0",
            "checkpoint_interval_s is 0.0; expected a number from 1 on",
        ),
        (
            f"{FILES} --set checkpoint_interval_s=soon",
            "checkpoint_interval_s=soon: input should be a valid number",
        ),
        (f"{FILES} --set checkpoint_cost_s=9", "has no effect without"),
    ],
)
def test_settings_that_cannot_be_are_refused_in_a_sentence(here: Path, arguments: str, sentence: str) -> None:
    (here / "log.swf").write_text("; MaxProcs: 8\n1 1 5 100 4 -1 900 4 200 -1 1 1 1 7 1 2 -1 -1\n")
    result = sil("sweep", *shlex.split(arguments), "--scheduler", "easy", "--out", "out")
    assert sentence in the_sentence(result)


def test_slurms_controller_gets_the_settings_of_slurm_conf(here: Path) -> None:
    program = resolve("slurm: slurm.conf (PriorityType=priority/basic)")
    found = Alternative("bf_interval=9", (), "SchedulerParameters=bf_interval=9").of(program)
    assert isinstance(found, SlurmProgram)
    assert found.program.settings == "PriorityType=priority/basic SchedulerParameters=bf_interval=9"
    with pytest.raises(
        UserError, match=r"reads its own slurm.conf and the files beside it, and not dump-1.cfg"
    ):
        Alternative("dump-1.cfg", ()).of(program)


def test_in_python_logs_are_given_by_the_names_of_policies(here: Path) -> None:
    policy = ["slurm.conf", "dump-2.cfg", "qos.txt"]
    logs = {
        name: testbed.read_log("sacct.txt", nodes="slurm.conf", policy=policy, settings=text)
        for name, text in (("now", ""), ("no fair share", "PriorityWeightFairshare=0"))
    }
    found = testbed.sweep(logs, "easy", slices=2, settings="checkpoint_interval_s=60", progress=False)
    assert found.schedulers == (
        "easy",
        "easy (checkpoint_interval_s=60)",
        "easy (no fair share)",
        "easy (no fair share checkpoint_interval_s=60)",
    )
    assert set(found.table["scheduler"]) == set(found.schedulers)
    with pytest.raises(UserError, match=r"is no setting of a replay; one of slurm\.conf is of the log"):
        testbed.sweep(logs["now"], "easy", settings="PriorityWeightAge=1")
    with pytest.raises(UserError, match="the slices differ"):
        testbed.sweep({"now": logs["now"], "fewer": logs["now"][:5]}, "easy")
