"""`sil validate` at a site whose policy is known, since its accounting was made under it: the right policy is
told to be right, and wrong ones to be wrong."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sil.rehearsal.run import Rehearsal, read_rehearsal
from sil.rehearsal.sections import judged_title
from sil.rehearsal.uses import TITLES, Grade, Use
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.site.logs import LogFile
from sil.workload.slices import DAY_S
from site_db.jobs.sacct.reader import RESERVED
from tests.commands import sil as run
from tests.commands import succeeded, the_sentence
from tests.sil.rehearsal.months import HEADER, row, written

CONF = """ClusterName=ours
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1
PriorityWeightAge=1000
PriorityMaxAge=7-0
PriorityWeightFairshare=100000
PriorityWeightQOS=20000
AccountingStorageEnforce=associations,limits,qos
NodeName=n[1-8] CPUs=8 CoresPerSocket=8
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0
PartitionName=test Nodes=n[1-2] MaxTime=1-0
"""
DUMP = """Cluster - 'ours':Fairshare=1:QOS='normal,urgent'
Parent - 'root'
Account - 'physics':Fairshare=6
Account - 'biology':Fairshare=2
Parent - 'physics'
User - 'ann':DefaultAccount='physics':Fairshare=5
User - 'bob':DefaultAccount='physics':Fairshare=1:MaxJobs=6
Parent - 'biology'
User - 'cat':DefaultAccount='biology':Fairshare=1:MaxJobs=4
User - 'dan':DefaultAccount='biology':Fairshare=1
"""
QOS = "Name|Priority|MaxTRESPU\nnormal|0|\nurgent|10|cpu=16\n"
FILES = {"slurm.conf": CONF, "sacctmgr.cfg": DUMP, "qos.txt": QOS}
DAYS, WARM_UP_DAYS, JOBS = 28, 7, 2_000
ACCOUNTS = {"ann": "physics", "bob": "physics", "cat": "biology", "dan": "biology"}


def accounting(folder: Path, rows: list[str]) -> Path:
    path = folder / "sacct.txt"
    path.write_text("\n".join((HEADER, *rows, "")))
    return path


def made(folder: Path) -> None:
    """The files of a site: four weeks at a load of 0.9, with the starts that its policy gives the jobs."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    random_, jobs = random.Random(7), []
    for submit_s in sorted(random_.randrange(int(DAYS * DAY_S)) for _ in range(JOBS)):
        run_s = min(60 + int(random_.expovariate(1 / 15_000)), 80_000)
        user = random_.choices([*ACCOUNTS], (3, 2, 2, 1))[0]
        of_job: dict[str, Any] = {
            "cpus": random_.choice((1, 2, 4, 4, 8, 8)),
            "user": user,
            "account": ACCOUNTS[user],
            "qos": "urgent" if random_.random() < 0.1 else "normal",
            "partition": "test" if random_.random() < 0.005 else "main",
            "minutes": next(limit for limit in (120, 480, 1440) if 60 * limit >= run_s),
        }
        jobs.append((submit_s, run_s, of_job))
    path = accounting(
        folder, [row(str(k), at_s, at_s, at_s + run_s, **of) for k, (at_s, run_s, of) in enumerate(jobs, 1)]
    )
    log = LogFile(nodes=folder / "slurm.conf", policy=[folder / name for name in FILES]).read(path)
    out = folder / "decided"
    out.mkdir()
    assert Replay(log).run(resolve("easy"), out).fault is None
    table = pl.read_csv(out / "jobs.csv").select("job_id", "starting_time", "allocated_resources")
    starts = {number: (start_s, node) for number, start_s, node in table.iter_rows()}
    rows = []
    for k, (at_s, run_s, of) in enumerate(jobs, 1):
        start_s = round(starts[k][0]) + jobs[0][0]
        rows.append(row(str(k), at_s, start_s, start_s + run_s, node=f"n{int(starts[k][1]) + 1}", **of))
    accounting(folder, rows)


WRONG = {
    "other weights": ("slurm.conf", [("WeightAge=1000", "WeightAge=200000"), ("MaxAge=7-0", "MaxAge=1-0")]),
    "no fair share": ("slurm.conf", [("PriorityWeightFairshare=100000\n", "")]),
    "other limits": ("sacctmgr.cfg", [(":MaxJobs=4", ":MaxJobs=8"), (":MaxJobs=6", "")]),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    made(folder)
    return folder


def validated(site: Path, policy: Path, out: Path, *more: str) -> tuple[Rehearsal, str]:
    given = [word for name in FILES for word in ("--policy", str(policy / name))]
    given += ["--from", f"2026-01-{1 + WARM_UP_DAYS:02d}", "--warm-up-days", str(WARM_UP_DAYS), *more]
    files = "--accounting", site / "sacct.txt", "--nodes", site / "slurm.conf"
    printed = succeeded("validate", *files, *given, "--out", out).stdout
    return read_rehearsal(out), printed


def grades(found: Rehearsal) -> dict[str, Grade]:
    return {judged_title(each): each.grade for each in found.reproduction.judgements}


@pytest.mark.usefixtures("in_this_process")
def test_the_right_policy_is_told_to_be_right_and_a_partition_with_few_jobs_is_not_judged(
    site: Path, tmp_path: Path
) -> None:
    found, printed = validated(site, site, tmp_path)
    compared = found.reproduction.all
    assert compared.jobs > 1_000
    assert found.reproduction.waiting.jobs > 500
    assert compared.replayed_s == pytest.approx(compared.recorded_s, rel=0.01)
    judged = grades(found)
    assert judged.pop("Waits of partition test") is Grade.NOT_JUDGED
    assert {*judged.values()} == {Grade.GOOD}
    assert {"Waits of account biology", "Waits of QOS urgent", "Purchases"} <= judged.keys()
    assert printed.count("good enough") == len(judged)
    starts = pl.read_csv(tmp_path / "starts.csv")
    near = (starts["recorded_start_s"] - starts["replayed_start_s"]).abs() < 300.0
    assert near.all()
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())["reproduction"]["judgements"]
    assert [each["grade"] for each in verdicts if each["name"] == "test"] == ["not judged"]
    (tmp_path / "validation.html").unlink()
    succeeded("report", tmp_path)
    assert "Validation of sacct.txt" in (tmp_path / "validation.html").read_text()


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_a_wrong_policy_is_told_to_be_wrong(wrong: str, site: Path, tmp_path: Path) -> None:
    (changed, changes), policy = WRONG[wrong], tmp_path / "policy"
    shutil.copytree(site, policy, ignore=shutil.ignore_patterns("decided", "sacct.txt"))
    text = (policy / changed).read_text()
    for right, other in changes:
        assert text.count(right) == 1
        text = text.replace(right, other)
    (policy / changed).write_text(text)
    judged = grades(validated(site, policy, tmp_path / "out")[0])
    for use in (Use.WAITS, Use.MEANS, Use.JOBS, Use.PURCHASES):
        assert judged[TITLES[use]] is Grade.NOT, use
    assert judged["Waits of account biology"] is Grade.NOT
    assert judged["Waits of partition test"] is Grade.NOT_JUDGED


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_jobs_that_differ_most_have_what_accounting_says_and_what_they_waited_for(tmp_path: Path) -> None:
    rows = [
        row("1", 0, 0, 1_000),
        *(row(str(k), 2_000, 2_000, 9_000, node=f"n{k - 1}") for k in range(2, 6)),
        row("6", 2_100, 2_100, 3_000, reservation="course"),
    ]
    log, conf = written(tmp_path, *rows)
    succeeded("validate", "--accounting", log, "--nodes", conf, "--reasons", "--out", tmp_path / "out")
    found = read_rehearsal(tmp_path / "out")
    (job,) = found.differing.to_dicts()
    assert (job["log_id"], job["before_s"], job["after_s"]) == ("6", 0.0, 6_900.0)
    assert RESERVED in job["before_reason"]
    assert "it requests" in job["after_reason"]
    assert {*grades(found).values()} == {Grade.NOT_JUDGED}


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_built_in_schedulers_keep_to_drains_and_reservations_that_sacctmgr_lists(tmp_path: Path) -> None:
    """Node n1 is drained, n2 reserved, gone has left the cluster; jobs 2 and 3 need whole nodes."""
    (tmp_path / "events.txt").write_text(
        "NodeName|Start|End|State|Reason\n"
        "n1|2026-01-01T00:00:00|2026-01-01T02:00:00|DRAIN|fan\ngone|2026-01-01T00:00:00|Unknown|DOWN|sold\n"
    )
    (tmp_path / "reservations.txt").write_text(
        "Name|Start|End|NodeNames|Flags\ncourse|2026-01-01T00:30:00|2026-01-01T03:00:00|n2|SPEC_NODES\n"
    )
    rows = [
        row("1", 0, 0, 1_000),
        *(row(str(k), 1_500, 1_500, 20_000, node=f"n{k + 1}") for k in (2, 3)),
        row("4", 3_600, 7_200, 9_000, node="n1"),
        row("5", 3_700, 3_700, 5_000, node="n2", reservation="course", user="bob", minutes=60),
    ]
    log, conf = written(tmp_path, *rows)
    result = succeeded("validate", "--accounting", log, "--nodes", conf, "--out", tmp_path / "out")
    found = read_rehearsal(tmp_path / "out").reproduction
    assert found.jobs["later_s"].to_list() == [0.0] * 4
    assert "ran in a reservation" not in result.output


def test_recorded_jobs_without_nodes_are_refused(tmp_path: Path) -> None:
    log, conf = written(tmp_path, row("1", 0, 0, 1_000), row("2", 2_000, 2_000, 3_000))
    sentence = the_sentence(run("validate", "--accounting", log, "--policy", conf))
    assert sentence.endswith("name the nodes with --nodes slurm.conf or --site DATABASE#SITE")
