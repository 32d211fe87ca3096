"""Experiments with the tables messages, crashes and clock_jumps."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from scheduler.messages import counted
from sil.trace.facts import TRACE, Fact
from sil.world.machines import execution
from tests.builders import tiny_experiment
from tests.commands import sil, the_sentence
from tests.sil.experiment.test_experiment import facts_of, run
from tests.sil.runs.test_failures import on_nodes
from tests.sil.runs.test_own_manager import MANAGERS

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

MESSAGES = """
[messages]
lost_share = 0.1
mean_delay_s = 2.0
duplicated_share = 0.1
reordered_share = 0.1

[[messages.partitions]]
machines = ["f[1-2]"]
from_s = 20
to_s = 600
"""
CRASHES = """
[crashes]
mean_time_between_crashes_s = 60
down_s = 5
"""
JUMPS = """
[[clock_jumps]]
at_s = 30
offset_s = 40

[[clock_jumps]]
at_s = 90
offset_s = -10
"""
ALL = MESSAGES + CRASHES + JUMPS
CHANGES = {"replications": "1", "jobs": "12"}


def of(facts: pl.DataFrame, *kinds: Fact) -> pl.DataFrame:
    return facts.filter(pl.col("event").is_in(list(kinds)))


def starts_and_ends(facts: pl.DataFrame) -> list[tuple[float, str, int, int]]:
    rows = of(facts, Fact.RUN_STARTED, Fact.RUN_ENDED).select("time_s", "event", "job", "resource").rows()
    return sorted(rows)


@pytest.mark.parametrize("scheduler", ["mct", "sjs", "min_min"])
@pytest.mark.parametrize("table", ["[messages]\n", "[crashes]\nmean_time_between_crashes_s = 1e12\n"])
def test_with_a_reliable_network_and_no_crash_runs_are_those_of_an_experiment_without_the_tables(
    scheduler: str, table: str, tmp_path: Path
) -> None:
    arrivals = 'arrivals = { kind = "poisson", jobs_per_quantum = 1.0 }\n'
    plain, remote = (
        facts_of(tiny_experiment(tmp_path, arrivals + more, jobs="30"), scheduler) for more in ("", table)
    )
    assert starts_and_ends(plain) == starts_and_ends(remote)
    assert len(starts_and_ends(plain)) == 60


def test_so_are_those_on_nodes(tmp_path: Path) -> None:
    workload = "[workload]\njobs = 40\nmix = {core = 2, gpu = 1}\n"
    found = [
        starts_and_ends(facts_of(on_nodes(tmp_path, workload + more), "fcfs"))
        for more in ("", "[messages]\n")
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 80


def test_all_jobs_end_in_an_experiment_with_all_tables_and_the_trace_tells_what_happened(
    tmp_path: Path,
) -> None:
    path = tiny_experiment(tmp_path, ALL, **CHANGES | {"jobs": "40"})
    comparison = run(path, tmp_path / "out")
    assert not comparison.faults
    facts = pl.read_parquet(tmp_path / "out" / TRACE)
    assert len(of(facts, Fact.RUN_ENDED)) == 2 * 40
    for fact in (Fact.MANAGER_DOWN, Fact.MANAGER_UP, Fact.RUN_ABANDONED, Fact.RUN_DISCARDED):
        assert len(of(facts, fact)), fact
    jobs = pl.read_csv(tmp_path / "out" / "jobs.csv")
    assert jobs["success"].to_list() == [1] * 80
    assert len(comparison.notes) == 2
    for scheduler, note in zip(comparison.schedulers, comparison.notes, strict=True):
        own = facts.filter(pl.col("scheduler") == scheduler)
        crashes, abandoned, discarded = (
            len(of(own, fact)) for fact in (Fact.MANAGER_DOWN, Fact.RUN_ABANDONED, Fact.RUN_DISCARDED)
        )
        assert note.startswith(f"{scheduler}: the manager crashed {counted(crashes, 'time')}, and gave up ")
        assert f"{counted(abandoned, 'run')} since" in note
        assert note.endswith(f"; of these, {discarded} ended and did not count")


@pytest.mark.processes
@pytest.mark.long
def test_one_and_two_workers_write_the_same_bytes(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, ALL, **CHANGES | {"replications": "3"})
    for workers in (1, 2):
        run(path, tmp_path / str(workers), workers)
    assert (tmp_path / "1" / TRACE).read_bytes() == (tmp_path / "2" / TRACE).read_bytes()


def test_every_scheduler_has_crashes_and_losses_of_its_own_seed_again(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, ALL, **CHANGES)
    assert facts_of(path, "mct").equals(facts_of(path, "mct"))
    assert not facts_of(path, "mct").equals(facts_of(path, "mct", 1))


def test_failing_jobs_are_requeued_as_often_over_a_network_with_crashes(tmp_path: Path) -> None:
    poison = "[failures.jobs.poison]\njob_classes = ['short']\n"
    changes = CHANGES | {"schedulers": '["mct"]\nmax_batch_requeue = 2', "jobs": "20"}
    path = tiny_experiment(tmp_path, poison + CRASHES + "[messages]\nlost_share = 0.2\n", **changes)
    facts = facts_of(path, "mct")
    assert not len(of(facts, Fact.FAULT))
    given_up = of(facts, Fact.JOB_REFUSED)
    assert set(given_up["detail"]) == {"it failed 3 times, and is requeued 2 times at most"}
    n_lost = of(facts, Fact.RUN_LOST).group_by("job").len()
    assert set(n_lost["len"]) == {3}
    assert set(n_lost["job"]) == set(given_up["job"])


def test_orders_for_licences_of_abandoned_runs_are_refused_until_these_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two licensed jobs run on the first node, which then cannot be reached; their licences are still in use.
    The manager, which does not know that, tries again every ten seconds: more often than a job may start."""
    monkeypatch.setattr(execution, "MAX_STARTS_OF_A_JOB", 20)
    workload = "[workload]\njobs = 2\nmix = {licensed = 1}\n"
    cut = "[[messages.partitions]]\nmachines = ['n1']\nfrom_s = 10\nto_s = 1000\n"
    path = on_nodes(tmp_path, workload + cut)
    site = tmp_path / "shared.toml"
    site.write_text(site.read_text().replace("{thin = 10, fat = 5}", "{thin = 20000, fat = 20000}"))
    facts = facts_of(path, "fcfs")
    assert not len(of(facts, Fact.FAULT))
    assert len(of(facts, Fact.RUN_ABANDONED)) == 2
    assert len(of(facts, Fact.ORDER_REFUSED)) > 100
    assert of(facts, Fact.RUN_ENDED)["time_s"].min() > 21_000.0
    assert len(of(facts, Fact.RUN_ENDED)) == 2


# -- what is not built in ------------------------------------------------------------------------------------


@pytest.fixture
def own(importable: Path) -> str:
    again = """
class Again(OnTheFirstMachine):
    def start(self, job):
        super().start(job)
        self.job = job
    def on_run_lost(self, loss):
        self.waiting.insert(0, self.job)
        self.running, self.wants_round = None, True
class Fickle(Again):
    made = 0
    def __init__(self, ports):
        super().__init__(ports)
        Fickle.made += 1
        self.machine = Fickle.made % 2
    def order(self, job):
        return super().order(job)._replace(resource=self.machine, machines=(self.machine,))
from scheduler.mapping.immediate import Mct
class MyMct(Mct):
    pass
"""
    (importable / "far_managers.py").write_text(MANAGERS + again)
    return "far_managers"


@pytest.mark.parametrize("name", ["Again", "MyMct"])
def test_a_scheduler_or_manager_of_the_user_works_over_a_network_and_after_crashes(
    name: str, own: str, tmp_path: Path
) -> None:
    scheduler = f"{own}:{name}"
    path = tiny_experiment(tmp_path, ALL, **CHANGES | {"schedulers": f'["{scheduler}"]'})
    assert not run(path, tmp_path / "out").faults
    facts = pl.read_parquet(tmp_path / "out" / TRACE)
    assert len(of(facts, Fact.RUN_ENDED)) == 12
    assert len(of(facts, Fact.MANAGER_UP)) > 1
    if name == "MyMct":
        built_in = tiny_experiment(tmp_path, ALL, **CHANGES | {"schedulers": '["mct"]'})
        assert starts_and_ends(facts) == starts_and_ends(facts_of(built_in, "mct"))


def test_a_users_manager_that_is_another_one_after_a_crash_is_at_fault(own: str, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, CRASHES, **CHANGES | {"schedulers": f'["{own}:Fickle"]'})
    (fault,) = run(path, tmp_path / "out").faults
    assert fault.rule == "keeps-its-journal"
    assert "run_round had other effects than before the restart" in fault.message


# -- mistakes ------------------------------------------------------------------------------------------------


def test_a_scheduler_that_is_a_program_of_its_own_is_refused(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, CRASHES)
    path.write_text(path.read_text().replace('"mct", "sjs"', '"batsim: /bin/true"'))
    told = the_sentence(sil("run", path, "--trust", "--out", tmp_path / "out"))
    assert "is a program of its own, which cannot be restarted in simulated time" in " ".join(told.split())
