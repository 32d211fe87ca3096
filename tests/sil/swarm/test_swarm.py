"""`sil swarm` finds seeded bugs and reports them with a case that reproduces them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.durability.reliable_delivery import ReliableDelivery
from scheduler.rules import RAISES_NOTHING
from sil.runs.under_test import resolve
from sil.swarm.campaign import PLAIN, Swarm, carried_out, lines_reached, shrunk
from sil.swarm.case import Case, CaseJob, SiteKind, drawn
from sil.swarm.faults import Fault
from sil.swarm.simulation import verdict_on
from sil.workers.executor import Inline
from sil.workers.processes import Processes
from tests.commands import sil, succeeded, the_sentence
from tests.sil.runs.test_own_manager import MANAGERS

pytestmark = pytest.mark.usefixtures("in_this_process")


def never_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug: what is lost is not sent again."""
    monkeypatch.setattr(ReliableDelivery, "_retry", lambda self, sent: None)


@pytest.fixture
def bug(monkeypatch: pytest.MonkeyPatch) -> None:
    never_again(monkeypatch)


LOSSES = ("lost messages", "repeated messages", "slow machines")


# -- what is built in ----------------------------------------------------------------------------------------


def test_the_built_in_managers_break_no_rule_in_two_hundred_cases() -> None:
    found = carried_out(Swarm(), range(200), Inline())
    assert found.violations == found.died == {}
    assert found.n_cases == 200
    assert {"run_abandoned", "run_discarded", "manager_up", "run_preempted", "run_lost"} <= found.facts.keys()
    assert all(times > 0 for times in found.cases_with.values())


@pytest.mark.long
def test_the_built_in_managers_break_no_rule_in_ten_thousand_cases() -> None:
    with Processes(2) as executor:
        found = carried_out(Swarm(), range(10_000), executor)
    assert found.violations == found.died == {}
    assert found.n_cases == 10_000


def test_jobs_that_fail_early_may_leave_machines_idle_until_starts_that_are_kept() -> None:
    """The longest that a case may take counts the time that was expected, ten times the actual one here."""
    jobs = (CaseJob(0, 17.0, 126.0, 1_260.0, 1, False), CaseJob(1, 20.0, 40.0, 40.0, 1, False))
    failing = Fault("failing jobs", {"share": 0.4, "after": 0.9, "times": 100})
    case = replace(drawn(24_339), jobs=jobs, faults=(failing,), n_machines=1)
    assert case.keeps_starts
    assert verdict_on(case).violation is None


def test_a_case_has_the_same_facts_again() -> None:
    seed = next(seed for seed in range(999) if len({fault.kind for fault in drawn(seed).faults}) == 5)
    assert verdict_on(drawn(seed)) == verdict_on(drawn(seed))


def test_lines_are_counted_without_changing_what_happens() -> None:
    lines = set[tuple[str, int]]()
    with lines_reached(lines):
        traced = verdict_on(drawn(3))
    assert traced == verdict_on(drawn(3))
    assert any(path.endswith("reliable_delivery.py") for path, _ in lines)
    assert all("/scheduler/durability/" in path or "/scheduler/managers/" in path for path, _ in lines)


@pytest.mark.processes
@pytest.mark.long
def test_two_workers_find_what_one_finds() -> None:
    with Processes(2) as executor:
        two = carried_out(Swarm(), range(400), executor)
    one = carried_out(Swarm(), range(400), Inline())
    two.lines = one.lines  # what is cached is executed once in each process
    assert one == two
    assert [*one.facts.items()] == [*two.facts.items()]


# -- bugs ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bug")
def test_the_smallest_case_breaks_the_same_rule_with_little() -> None:
    swarm = Swarm(kinds=LOSSES, n_jobs=6)
    violations = carried_out(swarm, range(30), Inline()).violations
    seed, violation = next(iter(violations.items()))
    case, smallest = swarm.case(seed), swarm.smallest(seed, violation)
    found = verdict_on(smallest).violation
    assert found is not None
    assert found.rule == violation.rule
    assert [fault.kind for fault in smallest.faults] == ["lost messages"]
    assert len(smallest.jobs) < len(case.jobs)
    assert {job.id for job in smallest.jobs} <= {job.id for job in case.jobs}


def test_a_case_shrinks_to_what_violates_alone() -> None:
    seed = next(seed for seed in range(999) if len(drawn(seed).jobs) > 12 and len(drawn(seed).faults) == 5)
    policies = {"has_queues": True, "is_remapping": True, "keeps_starts": True, "raised_after": 2}
    case = replace(drawn(seed), **policies, least_gain_s=5.0)
    needed_fault, needed_job = case.faults[2].kind, case.jobs[7].id

    def violates(case: Case) -> bool:
        return needed_fault in {fault.kind for fault in case.faults} and needed_job in {
            job.id for job in case.jobs
        }

    smallest = shrunk(case, violates)
    assert [fault.kind for fault in smallest.faults] == [needed_fault]
    assert [(job.id, job.size) for job in smallest.jobs] == [(needed_job, 1)]
    assert smallest.n_machines == 1
    assert {policy: getattr(smallest, policy) for policy in PLAIN} == PLAIN
    assert shrunk(case, lambda case: False) == case


# -- the command ---------------------------------------------------------------------------------------------


def test_a_swarm_without_violations_ends_with_zero_and_says_what_happened(tmp_path: Path) -> None:
    done = succeeded("swarm", "--seeds", "0:40", "--out", tmp_path / "out", "--unreached")
    for part in ("40 cases", "lost messages", "run_started", "reliable_delivery.py: not reached: "):
        assert part in done.output
    assert not (tmp_path / "out").exists()


def test_the_results_as_json_are_those_of_the_seeds(tmp_path: Path) -> None:
    options = ["--fault", "crashes", "--fault", "rack", "--json", "--out", str(tmp_path / "out")]
    found = json.loads(sil("swarm", "--seeds", "10:30", *options).stdout)
    assert found["cases"] == 20
    assert found["violations"] == {}
    assert [*found["cases_with"]] == ["crashes", "rack"]
    assert found == json.loads(sil("swarm", "--seeds", "10:30", *options).stdout)


@pytest.mark.usefixtures("bug")
def test_a_violation_ends_with_one_and_is_replayed_by_the_command_that_is_printed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [part for kind in LOSSES for part in ("--fault", kind)]
    done = sil("swarm", "--seeds", "0:30", "--jobs", "5", "--out", "found cases", *options)
    assert done.exit_code == 1
    told = " ".join(done.stderr.split())
    seed, rule = re.search(r"seed (\d+): ([\w-]+)", told).groups()  # type: ignore[union-attr]
    replay = re.search(r"Replay: (sil swarm --case '[^']+')", told).group(1)  # type: ignore[union-attr]
    assert Path(f"found cases/seed-{seed}.json").exists()
    again = sil(*shlex.split(replay)[1:])
    assert again.exit_code == 1, told
    assert f"Fault: {rule}" in " ".join(again.stderr.split())
    as_json = json.loads(sil(*shlex.split(replay)[1:], "--json").stdout)
    assert as_json["violation"]["rule"] == rule
    assert as_json["facts"][0]["event"] == "job_arrived"
    monkeypatch.undo()  # the bug is corrected
    corrected = succeeded("swarm", "--case", here / f"found cases/seed-{seed}.json")
    assert "No rule is broken." in corrected.output


def test_a_case_is_shown_with_its_policies(tmp_path: Path) -> None:
    policies = {"has_queues": True, "is_remapping": True, "keeps_starts": True, "raised_after": 2}
    seed = next(seed for seed in range(99) if drawn(seed).machines is SiteKind.DIFFERENT)
    replace(drawn(seed), faults=(), **policies, least_gain_s=2.5).write(tmp_path / "case.json")
    shown = " ".join(sil("swarm", "--case", tmp_path / "case.json").output.split())
    assert (
        "; no faults; urgent jobs displace others; a job is raised after 2 displacements; a displacement "
        "gains more than 2.5 s; planned runs are mapped again; planned starts are kept"
    ) in shown


def test_a_single_seed_is_shown_fact_by_fact() -> None:
    done = succeeded("swarm", "--seeds", "2")
    assert "run_started" in done.output
    assert "No rule is broken." in done.output


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--fault", "rain"], "there is no kind of fault 'rain'; expected one of: lost messages, late"),
        (
            ["--seeds", "9:3"],
            "--seeds is '9:3'; expected a number, or two like 0:1000, the second one greater",
        ),
        (["--seeds", "x"], "--seeds is 'x'; expected a number"),
        (["loras"], "scheduler 'loras' is of kind shared-nodes; a swarm tests those of the kinds mapping"),
        (["nobody"], "nobody"),
    ],
)
def test_wrong_input_is_one_sentence(arguments: list[str], expected: str) -> None:
    assert expected in " ".join(the_sentence(sil("swarm", *arguments)).split())


@pytest.fixture
def own(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A manager that forgets jobs whose runs are lost, and one that does not."""
    again = """
class Forgetful(OnTheFirstMachine):
    pass
class RaisesAtTheEnd(OnTheFirstMachine):
    on_run_ended = Raises.on_run_ended
class Good(OnTheFirstMachine):
    def __init__(self, ports, pause_s: float = 0.0):
        super().__init__(ports, pause_s)
        self.job_of = {}
    def start(self, job):
        super().start(job)
        self.job_of[self.running] = job
    def on_run_lost(self, loss):
        self.waiting.insert(0, self.job_of[loss.run])
        self.running, self.wants_round = None, True
"""
    monkeypatch.syspath_prepend(here)
    (here / "swarm_managers.py").write_text(MANAGERS + again)
    return "swarm_managers"


def test_a_users_manager_with_a_bug_is_named_with_a_replay_that_works(own: str, tmp_path: Path) -> None:
    name = f"{own}:Forgetful(pause_s=1)"
    done = sil("swarm", name, "--seeds", "0:30", "--jobs", "4", "--fault", "failures")
    assert done.exit_code == 1
    told = " ".join(done.stderr.split())
    replay = re.search(r"Replay: (sil swarm '[^']+' --case sil-swarm/seed-\d+.json)", told)
    assert replay is not None, told
    again = sil(*shlex.split(replay.group(1))[1:])
    assert again.exit_code == 1, told
    assert "Fault: " in again.stderr
    (path,) = [part for part in shlex.split(replay.group(1)) if part.endswith(".json")]
    assert f"sil swarm '{name}' --case FILE" in " ".join(the_sentence(sil("swarm", "--case", path)).split())
    assert "'easy' is for processors and nodes" in " ".join(
        the_sentence(sil("swarm", "easy", "--case", path)).split()
    )
    succeeded("swarm", f"{own}:Good", "--case", path)


def test_a_users_manager_is_tested_in_a_process_of_its_own(own: str) -> None:
    swarm = Swarm(resolve(f"{own}:Good"), n_jobs=4)
    swarm.check()
    assert carried_out(swarm, range(1), Inline()).violations == {}
    forgetful = replace(swarm, under_test=resolve(f"{own}:Forgetful"), kinds=("failing jobs",))
    cases = (case for case in map(forgetful.case, range(99)) if case.faults)
    assert any(forgetful.verdict(case).violation for case in cases)
    raises = replace(swarm, under_test=resolve(f"{own}:RaisesAtTheEnd"))
    violation = raises.verdict(raises.case(0)).violation
    assert violation is not None
    assert violation.rule == RAISES_NOTHING
    assert "on_run_ended raised LookupError: lost it (swarm_managers.py:" in violation.message
