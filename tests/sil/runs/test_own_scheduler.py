"""`sil check` and `sil new-scheduler`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from scheduler.rules import Kind
from sil.experiment.checking import check
from tests import faulty_on_free_nodes
from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process")

BREAKS_TWO = """
import os
from scheduler.model import NodeSchedule
from scheduler.free_nodes.consumable_problem import Placer

class BreaksTwo:
    '''Forgets its last job where there are three, and raises where there are four.'''
    def schedule(self, problem):
        placing = Placer(problem)
        if problem.n_jobs == 4:
            raise LookupError("four")
        for i, job in enumerate(problem.jobs):
            if job.n_tasks <= placing.n_free:
                placing.start(i)
        good = placing.schedule("no room")
        if problem.n_jobs == 3:
            left = {i: "no room" for i in good.wait_reasons if i != 2}
            return NodeSchedule([p for p in good.starts if p.job != 2], left)
        return good

class Declares(BreaksTwo):
    kind = "free_nodes"

class ReturnsNone:
    def schedule(self, problem):
        return None

class DiesAtOnce:
    def schedule(self, problem):
        os._exit(0)
"""


@pytest.fixture
def own(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of schedulers in the current folder."""
    monkeypatch.syspath_prepend(here)
    (here / "breaking_rules.py").write_text(BREAKS_TWO)
    return "breaking_rules"


def test_each_broken_rule_is_reported_once_with_its_smallest_example(own: str) -> None:
    kind, found, _ = check(f"{own}:BreaksTwo", Kind.FREE_NODES, 60, 5.0)
    assert kind is Kind.FREE_NODES
    findings = {finding.rule: finding for finding in found}
    assert set(findings) == {"no-job-forgotten", "raises-nothing"}
    (asked,) = findings["no-job-forgotten"].asked
    assert "waiting=((1, 1.0), (1, 1.0), (1, 1.0))" in asked
    assert "LookupError: four" in findings["raises-nothing"].message


def test_a_declared_kind_is_used_and_another_is_rejected(own: str) -> None:
    assert check(f"{own}:Declares", None, 20, 5.0).kind is Kind.FREE_NODES
    error_text = the_sentence(sil("check", f"{own}:Declares", "--kind", "mapping"))
    assert (
        "starts jobs on free nodes (kind free-nodes), but --kind mapping needs one that maps jobs"
        in error_text
    )


def test_an_undeclared_kind_defaults_to_mapping_and_a_mismatch_is_explained(own: str) -> None:
    done = sil("check", f"{own}:BreaksTwo", "--examples", "20")
    assert done.exit_code == 1
    assert "this scheduler starts jobs on free nodes (it reads problem.free_nodes), but" in done.output
    assert "Name its kind by --kind" in done.output


@pytest.mark.processes
def test_an_untested_rule_has_the_verdict_not_exercised(own: str) -> None:
    verdicts = check(f"{own}:ReturnsNone", None, 20, 5.0).verdicts
    assert verdicts["returns-a-schedule"] == "broken"
    assert verdicts["raises-nothing"] == verdicts["process-survives"] == "holds"
    assert verdicts["makes-progress"] == verdicts["no-double-booking"] == "not exercised"


def test_a_scheduler_that_exits_at_its_first_decision_does_not_end_the_command(own: str) -> None:
    done = sil("check", f"{own}:DiesAtOnce")
    assert done.exit_code == 1
    assert "process-survives: its process ended" in done.output


def test_the_command_prints_which_rules_hold_and_which_do_not(own: str) -> None:
    done = sil("check", f"{own}:BreaksTwo", "--examples", "60", "--kind", "free-nodes")
    assert done.exit_code == 1
    assert "starts jobs on free nodes" in done.output
    lines = [line for line in done.output.splitlines() if "│" in line]
    verdicts = {line.split("│")[1].strip(): line.split("│")[3].strip() for line in lines}
    assert verdicts["no-job-forgotten"] == verdicts["raises-nothing"] == "broken"
    assert verdicts["nodes-free"] == verdicts["deterministic"] == "holds"
    assert "breaks 2 rules" in done.output


def test_verdicts_and_findings_are_printed_as_json(own: str) -> None:
    done = sil("check", f"{own}:BreaksTwo", "--kind", "free-nodes", "--examples", "60", "--json")
    assert done.exit_code == 1
    found = {entry["rule"]: entry for entry in json.loads(done.stdout)}
    assert {rule for rule, entry in found.items() if entry["verdict"] == "broken"} == {
        "no-job-forgotten",
        "raises-nothing",
    }
    assert found["nodes-free"]["verdict"] == "holds"
    assert "LookupError: four" in found["raises-nothing"]["message"]


def test_after_an_aborted_search_the_other_rules_have_no_verdict() -> None:
    name = f"tests.faulty_on_free_nodes:{faulty_on_free_nodes.NeverReturns.__name__}"
    done = sil("check", name, "--kind", "free-nodes", "--decision-limit", "1")
    assert done.exit_code == 1
    assert "holds" not in done.output
    assert "not known" in done.output


@pytest.mark.parametrize("kind", ["mapping", "shared-nodes", "free-nodes", "clusters"])
def test_a_generated_scheduler_passes_the_check_with_parameters(
    kind: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"my_{kind.replace('-', '_')}"
    succeeded("new-scheduler", name, "--kind", kind)
    monkeypatch.syspath_prepend(str(here / name))
    class_name = "".join(part.capitalize() for part in name.split("_"))
    parameter = "(most_jobs=1)" if kind == "shared-nodes" else "(patience_s=5)"
    kinds = ["free-nodes", "consumable-nodes"] if kind == "free-nodes" else [kind]
    for each in kinds:
        done = succeeded("check", f"{name}:{class_name}{parameter}", "--kind", each, "--examples", "20")
        assert "keeps the contract" in done.output
    tests = (Path(name) / "tests" / f"test_{name}.py").read_text()
    assert all(f'"{each}"' in tests for each in kinds[1:])
    compile(tests, name, "exec")


@pytest.mark.long
def test_a_generated_scheduler_is_found_by_name_after_installation(tmp_path: Path) -> None:
    succeeded("new-scheduler", "fair_share", "--out", str(tmp_path / "package"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(tmp_path / "there"), str(tmp_path / "package")], check=True)
    asked = "from scheduler import registry; print(registry.resolve('fair_share').target)"
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path / 'there'}:{Path.cwd()}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "fair_share:FairShare"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("new-scheduler", "Fair-Share"), "'Fair-Share' is not a valid package name"),
        (("new-scheduler", "class"), "'class' is not a valid package name"),
        (("new-scheduler", "sjs"), "a scheduler 'sjs' already exists"),
        (("check", "no_such"), "unknown scheduler 'no_such'"),
    ],
)
def test_invalid_names_are_reported_in_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    done = sil(*arguments)
    assert done.exit_code == 2
    assert message in the_sentence(done)


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("of great value")
    done = sil("new-scheduler", "mine", "--out", str(tmp_path / "mine"))
    assert done.exit_code == 2
    assert "already exists" in the_sentence(done)
