"""Plans and sites from Python: what the commands say."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import sil
from site_db import store
from site_db.site_file.importing import read_site_file
from tests.commands import sil as command
from tests.sil.api.of_the_caller import Mine
from tests.sil.planning.test_plan import FEW, ONE_OFFER, plan_file


def test_a_plan_answers_as_the_command(tmp_path: Path) -> None:
    path = plan_file(tmp_path, ONE_OFFER, FEW)
    answers = sil.plan(path, folder=tmp_path / "kept", progress=False)
    found = json.loads(command("plan", str(path), "--out", str(tmp_path / "kept"), "--json").stdout)
    assert answers.recommendation == found["recommendation"]
    assert answers.answers.to_dicts() == found["options"]
    assert answers.notes == found["notes"]
    saved = answers.save(tmp_path / "saved")
    assert (saved / "options.csv").read_bytes() == (tmp_path / "kept" / "options.csv").read_bytes()
    page = (saved / "plan.html").read_text()
    assert answers.recommendation[:40] in page
    assert f"{path.name}, SHA-256 {sha256(path.read_bytes()).hexdigest()}" in page
    assert list(answers.charts) == ["effects"]


def test_a_plan_compares_under_a_class_of_the_caller(tmp_path: Path) -> None:
    path = plan_file(tmp_path, ONE_OFFER, FEW.replace("jobs = 40", "jobs = 15"))
    own = sil.plan(path, schedulers={"mct": Mine}, workers=1, progress=False, seed=3)
    built_in = sil.plan(path, schedulers="mct", progress=False, seed=3)
    assert_frame_equal(own.answers, built_in.answers)


def test_mistakes_in_plans_are_told(tmp_path: Path) -> None:
    path = plan_file(tmp_path, text=FEW)
    with pytest.raises(sil.UserError, match="unknown key 'budgit'; did you mean 'budget'"):
        sil.plan(path, budgit=3)
    with pytest.raises(sil.UserError, match="there is no such file"):
        sil.plan(path, site=str(tmp_path / "nothing.db"))


@pytest.fixture
def address(tmp_path: Path) -> str:
    found = str(tmp_path / "site.db")
    command("db", "init", "--db", found)
    command("db", "import", "hcs-2001", "--db", found)
    return found


def test_a_site_has_the_listings_of_the_command(address: str) -> None:
    site = sil.Site.open(address)
    shown = json.loads(command("db", "show", "--json", "--db", address).stdout)
    assert site.name == "hcs-2001"
    assert sil.Site.names(address) == ["hcs-2001"]
    assert {name: frame.to_dicts() for name, frame in site.tables.items()} == {
        name: rows for name, rows in shown.items() if not name.endswith("_total")
    }
    assert len(site.tables["machines"]) > 3


def test_a_site_learns_from_an_experiment_in_python(address: str, tmp_path: Path) -> None:
    site = sil.Site.open(address)
    assert len(site.history()) == 0
    nothing_yet = site.history().schema
    experiment = sil.Experiment.builtin("light-to-heavy").with_(
        grid={}, replications=1, workload={"jobs": 10}
    )
    experiment.run("mct", site=address, learn=True, progress=False)
    history = site.history(last=100)
    assert len(history) == 10
    assert history.schema == nothing_yet
    job_class = history["job_class"][0]
    assert site.expected_times(job_class)["own_runs"].sum() > 0
    (tmp_path / "site.toml").write_text(site.as_toml())
    assert read_site_file(tmp_path / "site.toml").name == "hcs-2001"


def test_mistakes_about_sites_are_told(address: str) -> None:
    with pytest.raises(sil.UserError, match="has no site 'spam'; it has hcs-2001"):
        sil.Site.open(f"{address}#spam")
    with pytest.raises(sil.UserError, match="no job class 'spam'"):
        sil.Site.open(address).expected_times("spam")
    with pytest.raises(sil.UserError, match="has no past jobs"):
        sil.Site.open(address).demand()
    with pytest.raises(sil.UserError, match="by is 'colour'; expected one of partition"):
        sil.Site.open(address).demand(by="colour")
    with pytest.raises(store.DatabaseTrouble, match="there is no such file"):
        sil.Site.open("nothing.db")
