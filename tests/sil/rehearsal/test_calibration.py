"""Unknown weights are found on the first part of what was recorded, and judged by the rest."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sil.rehearsal.calibration import FACTORS, LATER, OrderOfStarts
from sil.rehearsal.month import OperatorsActs, month_of
from sil.rehearsal.uses import Grade
from sil.site.logs import LogFile
from sil.workload.accounting import recorded_in
from sil.workload.settings import Rules
from tests.commands import sil as run
from tests.sil.rehearsal.known_site import FILES, grades, validated
from tests.sil.rehearsal.months import row, written


@pytest.fixture(scope="module")
def with_unknown_weights(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy of the site, without the weights of age and fair share."""
    folder = tmp_path_factory.mktemp("unknown")
    for name, text in FILES.items():
        (folder / name).write_text(re.sub("PriorityWeight(Age|Fairshare)=.*\n", "", text))
    return folder


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_weights_that_are_calibrated_on_the_first_part_reproduce_the_rest(
    site: Path, with_unknown_weights: Path, tmp_path: Path
) -> None:
    keys = "PriorityWeightFairshare,priorityweightage"
    found, printed = validated(site, with_unknown_weights, tmp_path / "found", "--calibrate", keys)
    rest, first = found.reproduction.all, found.reproduction.calibrated
    assert min(rest.jobs, first.jobs) > 500
    assert rest.replayed_s == pytest.approx(rest.recorded_s, rel=0.01)
    assert {*grades(found).values()} == {Grade.GOOD, Grade.NOT_JUDGED}
    jobs = found.reproduction.jobs["job"], found.reproduction.first_part["job"]
    assert not {*jobs[0]} & {*jobs[1]}
    assert max(found.reproduction.first_part["submit_s"]) < min(found.reproduction.jobs["submit_s"])
    assert "First part, on which weights were calibrated: 100.0 %" in printed
    assert "The rest, which alone is judged: 100.0 %" in printed
    page, verdicts = (
        (tmp_path / "found" / name).read_text() for name in ("validation.html", "verdicts.json")
    )
    assert "First part, on which weights were calibrated" in page
    assert [group["name"] for group in json.loads(verdicts)["reproduction"]["groups"]][:2] == [
        "first part",
        "all",
    ]
    fair_share, age = json.loads(verdicts)["calibration"]["weights"]
    assert 75_000 < fair_share["least"] < fair_share["found"] < fair_share["most"] < 150_000, (
        "three of five ranks"
    )
    assert age["least"] == 0.0
    assert "The log does not determine PriorityWeightAge" in printed
    assert "The log does not determine PriorityWeightFairshare" not in printed


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process")
def test_weights_are_calibrated_beside_one_that_stays_and_only_if_two_of_them_matter(
    site: Path, with_unknown_weights: Path, tmp_path: Path
) -> None:
    conf = with_unknown_weights / "slurm.conf"
    policy = tmp_path / "policy"
    shutil.copytree(with_unknown_weights, policy)
    (policy / "slurm.conf").write_text(conf.read_text().replace("PriorityWeightQOS=30000\n", ""))
    keys = "PriorityWeightQOS,PriorityWeightFairshare"
    printed = validated(site, policy, tmp_path / "out", "--calibrate", keys)[1]
    ratio = re.search(r"PriorityWeightFairshare=(\d+), beside PriorityWeightQOS=10000: only ratios", printed)
    assert ratio is not None
    assert 25_000 < int(ratio[1]) < 50_000
    files = "--accounting", site / "sacct.txt", "--nodes", site / "slurm.conf"
    options = [word for name in FILES for word in ("--policy", str(policy / name))]
    for keys, sentence in (
        ("PriorityWeightQOS", "only ratios of weights matter"),
        ("age", "expected some of"),
    ):
        result = run("validate", *files, *options, "--calibrate", keys, "--out", tmp_path / "alone")
        assert result.exit_code == 2
        assert sentence in result.stderr.splitlines()[-1]


def test_a_job_is_compared_with_those_that_could_have_had_its_place_and_no_others(tmp_path: Path) -> None:
    """Job 6 starts when 2 to 5 wait: 3 requests more, 4 has a longer limit, 5 another partition."""
    rows = [
        row("0", 0, 0, 1),
        row("1", 10, 10, 1_000),
        row("2", 100, 3_000, 4_000, cpus=2, user="bob"),
        row("3", 100, 3_000, 4_000, cpus=4),
        row("4", 100, 3_000, 4_000, cpus=2, minutes=601),
        row("5", 100, 3_000, 4_000, cpus=2, partition="long"),
        row("6", 200, 2_000, 3_000, cpus=2),
    ]
    log, conf = written(tmp_path, *rows)
    cluster = LogFile(nodes=conf, policy=[conf]).cluster
    assert cluster is not None
    found = month_of(recorded_in(log, Rules()), cluster, Rules(), OperatorsActs())
    ahead = OrderOfStarts(found.log).ahead(found.runs, frozenset(found.runs["job"]), 1e9)
    columns = dict(zip((*FACTORS, "least"), ahead.T.tolist(), strict=True))
    assert columns["age"] == pytest.approx([1_000 * -100 / 604_800])
    assert columns["least"] == [LATER]
