"""`sil validate` at a site whose policy is known, since its accounting was made under it: the right policy is
told to be right, and wrong ones to be wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from sil.rehearsal.run import read_rehearsal
from sil.rehearsal.uses import TITLES, Grade, Use
from site_db.jobs.sacct.reader import RESERVED
from tests.commands import sil as run
from tests.commands import succeeded, the_sentence
from tests.sil.rehearsal.known_site import grades, validated
from tests.sil.rehearsal.months import row, written

WRONG = {
    "other weights": ("slurm.conf", [("WeightAge=1000", "WeightAge=200000"), ("MaxAge=7-0", "MaxAge=1-0")]),
    "no fair share": ("slurm.conf", [("PriorityWeightFairshare=100000\n", "")]),
    "other limits": ("sacctmgr.cfg", [(":MaxJobs=4", ":MaxJobs=8"), (":MaxJobs=6", "")]),
}


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
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    judgements = verdicts["reproduction"]["judgements"]
    assert [each["grade"] for each in judgements if each["name"] == "test"] == ["not judged"]
    gaps = {each["missing"]: each["jobs"] for each in verdicts["not_in_accounting"]}
    assert gaps["progress of what ran at the beginning"] == 4
    assert all(missing in (tmp_path / "validation.html").read_text() for missing in gaps)
    (tmp_path / "validation.html").unlink()
    succeeded("report", tmp_path)
    assert "Validation of sacct.txt" in (tmp_path / "validation.html").read_text()


@pytest.mark.parametrize(
    "wrong", ["no fair share", *(pytest.param(each, marks=pytest.mark.long) for each in list(WRONG)[::2])]
)
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
