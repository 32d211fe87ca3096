"""Replays and plans of a site cite its validation, if that is of the same nodes, policy and scheduler."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sil
from sil.planning.page import PAGE
from tests.commands import sil as run
from tests.commands import succeeded, the_sentence
from tests.sil.rehearsal.known_site import FILES, WARM_UP_DAYS

PLAN = """name = "buy"
site = "lab"
schedulers = ["easy"]
policy = ["slurm.conf", "sacctmgr.cfg", "qos.txt"]
[history]
days = 4
[[goals]]
metric = "mean_waiting"
[[offers]]
name = "two nodes"
price = 10_000
changes = [{ add = "2 x new", processors = 8, partitions = ["main"] }]
"""
POLICY = [word for name in FILES for word in ("--policy", name)]
COUNTED = ["--from", f"2026-01-{1 + WARM_UP_DAYS:02d}", "--warm-up-days", str(WARM_UP_DAYS)]


@pytest.fixture(scope="module")
def lab(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site in a database, validated under its policy, and without it."""
    folder = tmp_path_factory.mktemp("lab")
    shutil.copytree(site, folder, ignore=shutil.ignore_patterns("decided"), dirs_exist_ok=True)
    (folder / "buy.toml").write_text(PLAN)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        succeeded("db", "init", "--db", "lab.db")
        succeeded("db", "import-slurm-conf", "slurm.conf", "--db", "lab.db#lab")
        succeeded("db", "import-sacct", "sacct.txt", "--db", "lab.db#lab")
        recorded = succeeded("validate", "--site", "lab.db#lab", *POLICY, *COUNTED, "--out", "right")
        assert "100.0 % of 1,484 starts are within 5 minutes" in recorded.stdout
        assert "2,000 jobs (first: 1) are of a database" in recorded.stderr
        succeeded("validate", "--site", "lab.db#lab", *COUNTED, "--out", "without")
    return folder


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_a_replay_cites_the_validation_of_its_site_or_warns_that_there_is_none(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lab)

    def said(*options: str | Path) -> str:
        replay = ("replay", "sacct.txt", *options, "--scheduler", "easy", "--out", tmp_path)
        return " ".join(succeeded(*replay).stderr.split())

    on_site = "--site", "lab.db#lab"
    assert "No validation says how near simulations of this site are" in said(*on_site)
    by = (
        "By the validation in right (the history of lab, 1,484 jobs, under easy), simulations are good enough"
    )
    assert f"{by} for mean waits; good enough for utilisation" in said(
        *on_site, *POLICY, "--validation", "right"
    )
    # The database and slurm.conf have the same nodes.
    assert f"{by} for mean waits" in said("--nodes", "slurm.conf", *POLICY, "--validation", "right")
    changed = said(*on_site, "--validation", "right")
    assert (
        "for changes of the policy that it is of, simulations are good enough for choosing between" in changed
    )
    (tmp_path / "fewer.conf").write_text(FILES["slurm.conf"].replace("n[1-8]", "n[1-7]"))
    fewer = said("--nodes", str(tmp_path / "fewer.conf"), *POLICY, "--validation", "right")
    assert "is of other nodes, and says nothing here: repeat it." in fewer
    assert "is of another scheduler" in " ".join(
        succeeded(
            *("replay", "sacct.txt", *on_site, *POLICY, "--scheduler", "fcfs", "--out", tmp_path),
            *("--validation", "right"),
        ).stderr.split()
    )


@pytest.mark.long
@pytest.mark.usefixtures("in_this_process")
def test_a_plan_says_on_its_first_page_whether_the_past_of_its_site_is_missed(
    lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lab)
    plan = "plan", "buy.toml", "--site", "lab.db#lab", "--out", tmp_path
    without = tmp_path / "without.toml"
    without.write_text(PLAN.replace("policy", "# policy"))
    for options, kind, sentence in (
        ((), "note", "No validation says how near simulations of this site are"),
        (("--validation", "right"), "note", "simulations are good enough for purchases."),
        (("--validation", "without"), "refusal", "is of another policy, and says nothing here: repeat it."),
    ):
        found = json.loads(succeeded(*plan, *options, "--json").stdout)["validation"]
        assert found["kind"] == kind
        assert sentence in found["text"]
    answers = sil.plan(without, site="lab.db#lab", validation="without", progress=False)
    page = answers.save(tmp_path / "missed") / PAGE
    before, section, _ = page.read_text().partition("Effect against cost")
    assert section
    assert "Simulations miss the site&#39;s own past. By the validation in without" in before
    assert "not good enough for purchases (difference of the mean waits" in before


def test_a_folder_without_verdicts_is_named(site: Path, tmp_path: Path) -> None:
    files = "--nodes", site / "slurm.conf", "--validation", tmp_path
    result = run("replay", site / "sacct.txt", *files, "--out", tmp_path / "out")
    assert (
        f"there is no verdicts.json of a validation; expected the folder of `sil validate --out {tmp_path}`"
        in (result.stderr.splitlines()[-1])
    )


def test_what_happened_has_to_be_given(site: Path) -> None:
    sentence = the_sentence(run("validate", "--nodes", site / "slurm.conf"))
    assert sentence.endswith("name --accounting FILE, or a --site that recorded it")
