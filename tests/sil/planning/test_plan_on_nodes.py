"""`sil plan` finds known answers on sites with nodes, forecasts demand, and rejects invalid plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from sil.planning.answers import Answers, Prepared, answer_questions
from sil.planning.assumptions import caveats
from sil.planning.checks import added_nodes, idle_parts
from sil.planning.options import AS_IT_IS, one_of_each
from sil.planning.page import OPTIONS, PAGE, options_frame
from sil.planning.plan_file import Plan, read_plan
from sil.planning.recommendation import recommendation
from sil.planning.runs import GoalNeverMeasured
from sil.planning.verdicts import PairVerdict
from sil.runs.nodes_scenario import NodesScenario
from sil.workers.executor import Inline
from sil.workers.runner import Runner
from tests.commands import sil, succeeded, the_sentence
from tests.sil.planning.nodes_site import DRAWN, HOUR_S, OFFERS, SITE, WEEK_HOURS, accounting, on_site, plan
from tests.sil.planning.test_plan import refusal_of
from tests.sil.runs.test_queueing_theory_on_nodes import mean_wait_mmc_s

pytestmark = pytest.mark.usefixtures("in_this_process", "without_figures")


FEW = {"first_replications": 2, "most_replications": 3}
"""Replications where their number does not matter."""


def answers_of(folder: Path, of: Plan, site: str = SITE) -> Answers:
    (folder / "site.toml").write_text(site)
    prepared = Prepared(of, folder / "plan.toml", None)
    return answer_questions(prepared, Runner(Inline()), lambda *look: None)


# -- answers that are known ------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_where_gpus_are_scarce_more_of_them_help_and_more_cores_do_not(seed: int, tmp_path: Path) -> None:
    answers = answers_of(tmp_path, plan(seed=seed))
    (answer,) = answers.answers
    assert answer.marginal is not None
    first, second = answer.marginal.effects
    assert first.option.name == "a node with GPUs"
    assert (first.against_today, second.against_today) == (PairVerdict.BETTER, PairVerdict.TIE)
    assert not answer.marginal.standings.unsettled
    assert "for 10, waiting of requested GPUs falls by" in recommendation(answers)


def test_offers_of_the_same_nodes_are_tied_and_equal_results_of_others_are_no_proof(tmp_path: Path) -> None:
    new = {"add": "1 x new", "processors": 8, "memory_mb": 64_000, "gpus": {"a100": 2}, "partitions": ["gpu"]}
    equal = [
        {"name": "as there are", "changes": ["1 x gpu-node"], "price": 10.0},
        {"name": "once more", "changes": ["1 x gpu-node"], "price": 10.0},
        {"name": "as described", "changes": [{**new, "like": "gpu-node"}], "price": 10.0},
    ]
    (answer,) = answers_of(tmp_path, plan(offers=equal, **FEW)).answers
    assert answer.marginal is not None
    assert answer.marginal.standings.tied_with("as there are") == ("once more",)
    why = answer.marginal.no_interval["as there are", "as described"]
    assert why == "no replication of 3 shows a difference"


ONE_NODE = """
name = "one-node"
machine_classes = [{ name = "node" }]
machines = [{ names = ["n1"], machine_class = "node", processors = 4 }]
partitions = [{ name = "all", nodes = ["n1"] }]
job_classes = [{ name = "one-core", sequential_s = { node = 100 } }]
"""


@pytest.mark.long
def test_one_more_core_shortens_waits_as_theory_says(tmp_path: Path) -> None:
    """M/M/4 and M/M/5 (Erlang C) at 0.8 of four cores."""
    of = plan(
        schedulers=["fcfs"],
        goals=[{"metric": "mean_waiting"}],
        workload={"jobs": 800, "arrivals": {"kind": "poisson", "jobs_per_quantum": 3.2, "quantum_s": 100}},
        run_times={"kind": "gamma", "coefficient_of_variation": 1.0},
        offers=[{"name": "a core", "changes": [{"change": "node", "processors": 5}], "price": 1.0}],
        warm_up_jobs=100,
        indifference=0.001,
        first_replications=24,
        most_replications=24,
    )
    (answer,) = answers_of(tmp_path, of, ONE_NODE).answers
    assert answer.marginal is not None
    (effect,) = answer.marginal.effects
    four_s, five_s = mean_wait_mmc_s(4, 0.8, 100.0), mean_wait_mmc_s(5, 0.64, 100.0)
    assert effect.gain.low <= four_s - five_s <= effect.gain.high
    assert (effect.gain.half_width or 0.0) < (four_s - five_s) / 3, "the interval says something"


def test_where_schedulers_map_jobs_to_slots_of_nodes_more_of_them_shorten_turnaround(tmp_path: Path) -> None:
    of = plan(
        schedulers=["mct"],
        goals=[{"metric": "mean_turnaround"}],
        workload={"jobs": 40, "arrivals": {"kind": "poisson", "jobs_per_quantum": 3.2, "quantum_s": 100}},
        offers=[{"name": "a node", "changes": ["1 x node"], "price": 1.0}],
        **FEW,
    )
    site = ONE_NODE.replace("processors = 4", "processors = 4, slots = 4")
    (answer,) = answers_of(tmp_path, of, site).answers
    assert answer.marginal is not None
    assert answer.marginal.effects[0].gain.mean > 0.0


@pytest.mark.long
@pytest.mark.processes
def test_results_on_nodes_do_not_depend_on_workers(tmp_path: Path) -> None:
    path = plan_file(tmp_path)
    for workers in ("1", "2"):
        succeeded("plan", path, "--out", tmp_path / workers, "--workers", workers)
    for name in (OPTIONS, "job_classes.csv", PAGE):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


# -- weeks of a log --------------------------------------------------------------------------------------


def weekly(**more: Any) -> Plan:
    return plan(log={"file": "sacct.txt", "weeks": 2}, **FEW, **more)


def arrivals(scenario: NodesScenario, replication: int) -> list[tuple[float, str | None, float]]:
    """Arrival, request and run time of each job in one replication."""
    arriving = scenario.at(0, replication).arriving()
    return [(job.arrival_s, str(job.request), arriving.run_s(job, ())) for job in arriving.jobs]


def scenarios(folder: Path, of: Plan) -> Iterator[NodesScenario]:
    """Of the site as it is and of each offer."""
    site = on_site(folder, of)
    for option in (AS_IT_IS, *one_of_each(of)):
        scenario = site.scenario(option)
        assert isinstance(scenario, NodesScenario)
        yield scenario


def test_all_options_see_the_same_weeks_and_replications_see_others(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 6)
    today, *offers = scenarios(tmp_path, weekly())
    assert all(arrivals(offer, 3) == arrivals(today, 3) for offer in offers)
    assert len({tuple(arrivals(today, replication)) for replication in range(5)}) > 1
    other_seed = next(scenarios(tmp_path, weekly(seed=2)))
    assert [arrivals(other_seed, r) for r in range(4)] != [arrivals(today, r) for r in range(4)]


def test_drawn_weeks_keep_days_and_nights(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 6)
    today = next(scenarios(tmp_path, weekly()))
    for replication in range(3):
        drawn = arrivals(today, replication)
        hours = np.array([arrival_s for arrival_s, _, _ in drawn]) / HOUR_S
        by_day = ((hours % 24 >= 9) & (hours % 24 < 17)).mean()
        assert by_day > 0.85
        at_ends = [
            hour for hour, (_, what, _) in zip(hours, drawn, strict=True) if str(what).startswith("2 n")
        ]
        assert [hour % WEEK_HOURS for hour in at_ends] == [0, WEEK_HOURS - 1] * 2


def test_weeks_are_drawn_whole_and_then_their_times_are_divided_by_the_load(tmp_path: Path) -> None:
    """Five weeks at 1.25 times their load are still five weeks to draw from, of which each lasts 5.6 days."""
    accounting(tmp_path / "sacct.txt", 5)
    as_it_was = next(scenarios(tmp_path, weekly()))
    busier = next(scenarios(tmp_path, plan(log={"file": "sacct.txt", "weeks": 2, "load": 1.25})))
    for replication in range(3):
        before, after = arrivals(as_it_was, replication), arrivals(busier, replication)
        assert [what for _, *what in after] == [what for _, *what in before], "the same jobs"
        assert [arrival_s for arrival_s, *_ in after] == [
            round((arrival_s - before[0][0]) / 1.25 + before[0][0]) for arrival_s, *_ in before
        ]


def test_the_capacity_for_weeks_at_a_multiple_of_their_load_is_that_multiple(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 5)
    (once, more) = (
        on_site(tmp_path, plan(log={"file": "sacct.txt", "weeks": 2, "load": load})).load(AS_IT_IS)
        for load in (1.0, 1.25)
    )
    assert once is not None
    assert more is not None
    assert more.rho == pytest.approx(1.25 * once.rho)


# -- jobs that arrive once, as they did --------------------------------------------------------------------

LOG_OF_FEW = """JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES
1|a|gpu|2026-03-02T00:00:00|2026-03-02T00:00:00|2026-03-02T00:10:00|COMPLETED|60|cpu=2,node=1,gres/gpu=2|
2|b|gpu|2026-03-02T00:01:00|2026-03-02T00:01:00|2026-03-02T00:11:00|COMPLETED|60|cpu=2,node=1,gres/gpu=2|
3|c|gpu|2026-03-02T00:02:00|2026-03-02T00:12:00|2026-03-02T00:22:00|COMPLETED|60|cpu=2,node=1,gres/gpu=2|
"""
"""Two nodes have two GPUs each: job 3 waits from 120 to 600 s, for two GPUs; on three nodes, no job waits."""

FEW_FILE = """
name = "few"
site = "site.toml"
schedulers = ["fcfs"]
goals = [{ metric = "gpu_waiting" }]
offers = [{ name = "a node", changes = ["1 x gpu-node"], price = 10 }]
"""


def few_jobs_in_a_database(folder: Path) -> Path:
    (folder / "site.toml").write_text(SITE)
    (folder / "few.txt").write_text(LOG_OF_FEW)
    for command in (["init"], ["import", "site.toml"], ["import-sacct", "few.txt"]):
        succeeded("db", *command, "--db", str(folder / "site.db"))
    return folder / "site.db"


@pytest.mark.reads_report
@pytest.mark.parametrize(
    ("forecast", "name"),
    [
        ("[history]", "the history of shared"),
        ("[history]\ndays = 1", "the history of shared"),
        ('[log]\nfile = "few.txt"', "few.txt"),
    ],
)
def test_offers_are_compared_on_the_jobs_as_they_arrived(forecast: str, name: str, here: Path) -> None:
    database = few_jobs_in_a_database(here)
    path = plan_file(here, f"\n{forecast}\n", FEW_FILE)
    done = succeeded("plan", path, "--site", str(database), "--out", "out")
    console, page = " ".join(done.output.split()), (here / "out" / PAGE).read_text()
    for sentence in (
        f"The forecast: all 3 jobs of {name} as they arrived.",
        "for 10, waiting of requested GPUs falls by 100.0 %, to 0 GPU h.",
    ):
        assert sentence in console
        assert sentence in page
    assert "differences are those of these jobs, and have no confidence intervals" in page
    assert "of the capacity of the site" not in page, "three jobs have no rate"
    (row,) = pl.read_csv(here / "out" / OPTIONS).to_dicts()
    assert row["gain"] == pytest.approx(2 * 480 / 3600)
    assert (row["replications"], row["gain_half_width"], row["against_today"]) == (1, None, "better")


def test_jobs_as_they_arrived_are_replicated_where_machines_fail_at_random(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text(LOG_OF_FEW)
    failing = plan(
        log={"file": "few.txt"},
        failures={"mean_time_between_failures_s": 3000.0, "mean_time_to_repair_s": 60.0},
    )
    (tmp_path / "site.toml").write_text(SITE)
    assert Prepared(failing, tmp_path / "plan.toml", None).plan.replications == 400


def test_an_offer_without_which_jobs_run_but_not_with_it_is_left_out(tmp_path: Path) -> None:
    """Without GPUs in half of the nodes, nothing is refused; without any, all jobs are."""
    (tmp_path / "few.txt").write_text(LOG_OF_FEW)
    offers = [
        {"name": name, "changes": [{"remove": what}, "1 x cpu-node"], "price": 1.0}
        for name, what in (("one less", "g2"), ("none", "g[1-2]"))
    ]
    offers[1]["changes"].append({**NEW, "gpus": {}, "features": ["x"]})
    (tmp_path / "site.toml").write_text(SITE)
    loads = Prepared(plan(log={"file": "few.txt"}, offers=offers), tmp_path / "plan.toml", None).loads
    assert loads["one less"] is None
    assert loads["none"] is not None
    assert loads["none"].is_too_much


def test_the_partitions_that_new_nodes_join_are_said(tmp_path: Path) -> None:
    new = {"name": "new", "changes": [{**NEW, "like": "gpu-node"}], "price": 1.0}
    of = plan(offers=[{**OFFERS[1], "name": "two"}, new, {"name": "more", "changes": [MEMORY], "price": 1.0}])
    assert list(added_nodes(on_site(tmp_path, of), one_of_each(of))) == [
        "'two' adds 2 nodes of class cpu-node to partitions cpu and all",
        "'new' adds 1 node of class new to partition gpu",
    ]


REFUSED = f"""{LOG_OF_FEW}\
4|d|gpu|2026-03-02T00:03:00|2026-03-02T00:22:00|2026-03-02T00:52:00|TIMEOUT|60|cpu=4,node=1,gres/gpu=3|
5|e|cpu|2026-03-02T00:04:00|2026-03-02T00:22:00|2026-03-02T00:42:00|COMPLETED|600|cpu=3,node=1|
6|f|cpu|2026-03-02T00:04:00|2026-03-02T00:22:00|2026-03-02T00:32:00|COMPLETED|60|cpu=16,node=2|
7|g|cpu|2026-03-02T00:05:00|2026-03-02T00:22:00|2026-03-02T00:32:00|COMPLETED|60|cpu=2,node=1,license/licence=4|
8|h|cpu,gpu|2026-03-02T00:05:00|2026-03-02T00:22:00|2026-03-02T00:32:00|COMPLETED|600|cpu=8,node=1,gres/gpu=4|
9|i|old|2026-03-02T00:05:00|2026-03-02T00:22:00|2026-03-02T00:32:00|COMPLETED|60|cpu=2,node=1|
"""
LIMITED = SITE.replace('name = "cpu"\nnodes', 'name = "cpu"\nmax_time_s = 7200\nmax_nodes = 1\nnodes')


def test_refused_jobs_are_reported_with_reason_hours_and_partition(tmp_path: Path) -> None:
    """In core minutes, jobs 1 to 3 request 20 each, and the others 120, 60, 160, 20, 80 and 20: 520 in all.
    In GPU minutes: 20 each, 90 and 40: 190."""
    (tmp_path / "few.txt").write_text(REFUSED)
    said = list(caveats(answers_of(tmp_path, plan(log={"file": "few.txt"}), LIMITED)))
    for sentence in (
        "11 % of the jobs that arrive, with 23 % of the core hours and 47 % of the GPU hours, request more "
        "than the nodes of partition gpu have: they are refused, and count in no figure.",
        "12 % of the core hours, request more time than partition cpu allows: they",
        "31 % of the core hours, request more nodes than partition cpu allows: they",
        "3.8 % of the core hours, request more than the site has, 3 licence: they",
        "15 % of the core hours and 21 % of the GPU hours, request more than the nodes of partitions cpu and "
        "gpu have: they",
        "3.8 % of the core hours, name partition old, which the site does not have: they",
    ):
        assert [one for one in said if sentence in one], sentence


def test_a_goal_of_which_all_jobs_are_refused_says_why(tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text(LOG_OF_FEW.replace("gres/gpu=2", "gres/gpu=3"))
    with pytest.raises(GoalNeverMeasured, match="they request more than the nodes of partition gpu have"):
        answers_of(
            tmp_path, plan(log={"file": "few.txt"}, goals=[{"metric": "makespan", "partition": "gpu"}])
        )


def test_a_log_is_read_once_and_its_notes_appear_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    text = (tmp_path / "sacct.txt").read_text()
    (tmp_path / "sacct.txt").write_text(text.replace("|1440|", "||").replace("gres/gpu=1", "gres/gpu=9", 2))
    from sil.site import site_in_use

    reads, read = [], site_in_use.read_log
    monkeypatch.setattr(site_in_use, "read_log", lambda *what: reads.append(what) or read(*what))
    answers = answers_of(tmp_path, weekly())
    assert len(reads) == 1
    said = list(caveats(answers))
    assert sum("without a time limit; the run time is taken" in sentence for sentence in said) == 1
    assert sum("requests 1 node with 2 CPUs, 8,000 MiB, 9 GPUs" in sentence for sentence in said) == 1


def test_runs_are_others_after_the_log_is_edited(tmp_path: Path) -> None:
    keys = []
    for seed in (1, 1, 2):
        accounting(tmp_path / "sacct.txt", 3, seed)
        keys.append(on_site(tmp_path, weekly()).run(AS_IT_IS, "easy", 0).key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.reads_report
def test_page_and_console_say_how_nodes_are_modelled_and_what_is_forecast(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 5)
    path = plan_file(tmp_path, '[log]\nfile = "sacct.txt"\nweeks = 2\n')
    done = succeeded("plan", path, "--out", tmp_path / "out")
    console, page = " ".join(done.output.split()), unescape((tmp_path / "out" / PAGE).read_text())
    for sentence in (
        "The forecast: 2 weeks drawn from 5 of sacct.txt, in each replication.",
        "Nodes: 4 with 8 CPUs, 32,000 MiB; 2 with 8 CPUs, 64,000 MiB, 2 a100 GPUs.",
        "Jobs share nodes by CPUs, memory and GPUs; partitions, by number of nodes: cpu (4), gpu (2)",
        "'a node' adds 1 node of class gpu-node to partitions gpu and all.",
        "waits have no bias like that of mapping = commit on machines",
    ):
        assert sentence in console
        assert sentence in page
    assert "keep the machine to which they were mapped" not in page
    assert "Jobs run as long as they did, on whatever nodes" in page
    assert "Gain by job class" not in page, "the log has none"


def test_weeks_of_the_past_of_a_site_are_a_forecast(here: Path) -> None:
    (here / "site.toml").write_text(SITE)
    accounting(here / "sacct.txt", 3)
    for command in (["init"], ["import", "site.toml"], ["import-sacct", "sacct.txt"]):
        succeeded("db", *command)
    path = plan_file(here, "[history]\nweeks = 1\n")
    done = succeeded("plan", path, "--site", "site.db", "--json")
    printed = json.loads(done.stdout)
    assert any("1 week drawn from 3 of the history of shared" in one for one in printed["assumptions"])
    assert "name its database with --site" in the_sentence(sil("plan", path))


# -- goals, offers and questions -------------------------------------------------------------------------


def test_gpu_goals_are_those_of_the_jobs_in_a_run(tmp_path: Path) -> None:
    goals = [{"metric": name} for name in ("gpu_waiting", "gpu_utilisation", "utilisation")]
    of = plan(goals=[*goals, {"metric": "mean_waiting", "partition": "gpu"}])
    site = on_site(tmp_path, of)
    run = site.run(AS_IT_IS, "easy", 0)
    found, jobs = run(), run.simulate().all_jobs
    on_gpus = jobs.filter(job_class="train")
    assert found["gpu_waiting"] == pytest.approx(on_gpus["waiting_time"].sum() / 3600)
    assert found["mean_waiting gpu"] == pytest.approx(on_gpus["waiting_time"].mean())
    span_s = jobs["finish_time"].max() - jobs["submission_time"].min()  # type: ignore[operator]
    assert found["gpu_utilisation"] == pytest.approx(100 * on_gpus["execution_time"].sum() / (4 * span_s))
    used_s = (jobs["execution_time"] * jobs["tasks"]).sum()
    assert found["utilisation"] == pytest.approx(100 * used_s / (48 * span_s))


def test_the_first_jobs_of_a_drawn_week_are_not_measured(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    simulated = on_site(tmp_path, weekly(warm_up_jobs=20)).run(AS_IT_IS, "easy", 0).simulate()
    assert len(simulated.jobs) == len(simulated.all_jobs) - 20


def test_the_uncertainty_of_times_on_new_nodes_is_drawn_in_each_replication(tmp_path: Path) -> None:
    new = {"add": "9 x new", "processors": 8, "memory_mb": 64_000, "gpus": {"a100": 2}, "partitions": ["gpu"]}
    offer = {"name": "new", "changes": [{**new, "like": "gpu-node", "uncertainty": 0.5}], "price": 1.0}
    (_, uncertain) = scenarios(tmp_path, plan(offers=[offer]))
    ran_s = set()
    for replication in range(3):
        arriving = uncertain.at(0, replication).arriving()
        job = next(job for job in arriving.jobs if job.job_class == "train")
        on_new = list(uncertain.cluster.nodes).index("new-new-1")
        ran_s.add(arriving.run_s(job, [on_new]))
    assert len(ran_s) == 3


def test_retirements_are_kinds_of_nodes_by_class_and_partitions(tmp_path: Path) -> None:
    answers = answers_of(
        tmp_path, plan(offers=[], retire={"count": 1}, goals=[{"metric": "mean_waiting"}], **FEW)
    )
    assert answers.indispensable == ("without 1 x gpu-node of gpu, all",)
    (answer,) = answers.answers
    assert answer.retire is not None
    assert [effect.option.name for effect in answer.retire.effects] == ["without 1 x cpu-node of cpu, all"]


@pytest.mark.long
def test_the_least_number_of_nodes_and_the_best_buy_are_found(tmp_path: Path) -> None:
    of = plan(
        offers=[{"name": "a node", "changes": ["1 x gpu-node"], "price": 10.0, "limit": 4}],
        budget=20,
        size={"offer": "a node", "target": 0.05},
        most_replications=15,
    )
    (answer,) = answers_of(tmp_path, of).answers
    assert answer.size is not None
    assert answer.size.count in (2, 3)
    assert answer.best_buy is not None
    assert answer.best_buy.ranking.effects[0].option.name == "2 x a node"


MEMORY = {"change": "cpu-node", "more_memory_mb": 8_000}
NEW = {"add": "1 x new", "processors": 8, "memory_mb": 64_000, "gpus": {"h100": 2}, "partitions": ["gpu"]}


NO_EFFECT = "no effect, since past jobs run as long as they did, on any node"
ON_CHANGED = "no job of the forecast that may run on the changed nodes requests"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({**NEW, "like": "gpu-node", "times_as_fast": 2.0}, f"like and times_as_fast have {NO_EFFECT}"),
        ({**NEW, "rating": 2.0}, f"rating has {NO_EFFECT}"),
        ({**NEW, "partitions": ["all"]}, "no job of the forecast can run on the added nodes"),
        ({"change": "gpu-node", "processors": 16, "resources": {"fpga": 1}}, f"{ON_CHANGED} fpga"),
        ({"change": "cpu-node", "gpus": {"a100": 1}}, f"{ON_CHANGED} GPUs"),
    ],
)
def test_parts_of_offers_without_effect_are_said(
    change: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    of = weekly(offers=[{"name": "it", "changes": [change], "price": 1.0}])
    (said,) = idle_parts(on_site(tmp_path, of), one_of_each(of))
    assert said.startswith("'it': ")
    assert sentence in said


RARELY_FAILING = {"failures": {"mean_time_between_failures_s": 1e9, "mean_time_to_repair_s": 1.0}}


@pytest.mark.parametrize(
    ("goal", "more", "is_tied"),
    [("mean_waiting", {}, True), ("utilisation", {}, False), ("mean_waiting", RARELY_FAILING, False)],
    ids=["waiting", "utilisation", "failures"],
)
def test_nodes_that_no_job_can_use_are_a_tie_without_replications(
    goal: str, more: dict[str, Any], is_tied: bool, tmp_path: Path
) -> None:
    """They took all replications, and were then not settled."""
    offers = [
        {"name": "unusable", "changes": [{**NEW, "like": "gpu-node", "partitions": ["all"]}], "price": 1.0},
        {"name": "usable", "changes": ["1 x gpu-node"], "price": 2.0},
    ]
    of = plan(goals=[{"metric": goal}], offers=offers, budget=3, **FEW, **more)
    (answer,) = answers_of(tmp_path, of).answers
    assert answer.marginal is not None
    effect = answer.marginal.effect("unusable")
    assert (effect.against_today is PairVerdict.TIE) is is_tied
    assert answer.best_buy is not None
    tied = answer.best_buy.ranking.standings.tied_with("usable")
    assert ("unusable + usable" in tied) is is_tied
    site, (unusable, _) = on_site(tmp_path, of), one_of_each(of)
    assert site.usable(unusable, "tests.sil.api.of_the_caller:SmallestFirst") is unusable


def test_an_offer_with_effect_has_no_such_note_and_unknown_speed_is_said(tmp_path: Path) -> None:
    offers = [
        {"name": "memory", "changes": [MEMORY], "price": 1.0},
        {"name": "new", "changes": [NEW], "price": 1.0},
    ]
    said = list(caveats(answers_of(tmp_path, plan(offers=offers, **FEW))))
    assert not [one for one in said if one.startswith("'memory': ")]
    assert [one for one in said if one.startswith("'new': nothing is said of the speed of 'new'")]


@pytest.mark.parametrize(("budget", "begins"), [(None, "Nothing can"), (10, "With 10, nothing can")])
def test_what_is_not_settled_is_not_recommended(budget: float | None, begins: str, tmp_path: Path) -> None:
    """Two replications say little, but their means differ."""
    of = plan(first_replications=2, most_replications=2, budget=budget, offers=OFFERS[:1])
    answers = answers_of(tmp_path, of)
    for ranking in answers.answers[0].rankings.values():
        assert ranking.effects[0].against_today is PairVerdict.UNSETTLED
    assert recommendation(answers).startswith(
        f"{begins} be recommended yet: after 2 replications, it is not settled whether 'a node with GPUs' "
        f"makes a difference (waiting of requested GPUs falls by "
    )


# -- messages --------------------------------------------------------------------------------------------

FILE = """
name = "nodes"
site = "site.toml"
schedulers = ["easy"]
first_replications = 2
most_replications = 3
goals = [{ metric = "gpu_waiting" }]
offers = [{ name = "a node", changes = ["1 x gpu-node"], price = 10 }]
"""
WORKLOAD = """
[workload]
jobs = 60
arrivals = { kind = "poisson", jobs_per_quantum = 0.5, quantum_s = 100 }
"""


def plan_file(folder: Path, forecast: str = WORKLOAD, text: str = FILE) -> Path:
    (folder / "site.toml").write_text(SITE)
    (folder / "plan.toml").write_text(text + forecast)
    return folder / "plan.toml"


LOG = '\n[log]\nfile = "sacct.txt"\n'
WEEKS = f"{LOG}weeks = 2\n"
AT_SITE, GOAL = 'site = "site.toml"', '"gpu_waiting"'
VARIED = "[run_times]\nkind = 'gamma'\ncoefficient_of_variation = 1\n"


@pytest.mark.parametrize(
    ("find", "put", "forecast", "message"),
    [
        (AT_SITE, "", WEEKS, "site is missing, and the weeks of a log are drawn for its nodes"),
        ("", "", f"{LOG}parts = 5\n", "a log without a site, and the plan is for the nodes of 'site.toml'"),
        (AT_SITE, "", LOG, "and no 'changes'; a log for the nodes of a site needs 'site'"),
        ("", "", f"{WEEKS}parts = 5\n", "log.parts is for a log without a site, and log.weeks for the nodes"),
        ("most_replications = 3\n", "", LOG, "first_replications has no effect where all jobs arrive once"),
        ("", "", f"{WEEKS}processors = 5\n", "log.processors is for a log without a site"),
        ("", "", "\n[history]\nweeks = 2\njobs = 5\n", "jobs or weeks of a history, and this one both"),
        ("", "", WEEKS + VARIED, "run_times has no effect"),
        (
            "",
            "",
            f"{WORKLOAD}[preemption]\nleast_gain_s = 2\n",
            "preemption.least_gain_s has no effect on nodes",
        ),
        (GOAL, '"mean_waiting", job_class = "x"', WEEKS, "no job of job class 'x' ever"),
        (GOAL, '"makespan", partition = "gp"', WORKLOAD, "no job of partition 'gp' ever arrives; there"),
        (GOAL, '"makespan", partition = "a", queue = "b"', WORKLOAD, "in a queue or in a partition"),
        ('["easy"]', '["mct"]', WORKLOAD, "mct"),
        ("gpu-node", "gpu-nod", WORKLOAD, "add 1 x gpu-nod: the site has no machines of class 'gpu-nod'"),
    ],
)
def test_plans_that_do_not_fit_nodes_are_rejected_with_one_sentence(
    find: str, put: str, forecast: str, message: str, tmp_path: Path
) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    assert message in refusal_of(plan_file(tmp_path, forecast, FILE.replace(find, put, 1)))


ON_MACHINES = (
    FILE.replace("site.toml", "hcs-2001").replace("1 x gpu-node", "1 x pii-450").replace("easy", "mct")
)


@pytest.mark.parametrize(
    ("forecast", "message"),
    [
        (WEEKS, "the jobs of a log run on nodes, and the site 'hcs-2001' has no partitions"),
        ("\n[history]\nweeks = 2\n", "the jobs of a history run on nodes, and the site 'hcs-2001' has no"),
    ],
)
def test_weeks_are_rejected_for_a_site_of_machines(forecast: str, message: str, tmp_path: Path) -> None:
    assert message in refusal_of(plan_file(tmp_path, forecast, ON_MACHINES))


def test_goals_of_gpus_are_rejected_where_there_are_none(tmp_path: Path) -> None:
    path = plan_file(tmp_path, text=FILE.replace('"1 x gpu-node"', '"1 x node"'))
    (tmp_path / "site.toml").write_text(ONE_NODE)
    assert "the goal is gpu_waiting, and the site has no GPUs" in refusal_of(path)
    for goal, sentence in (
        (GOAL, "the site has no GPUs"),
        ('"weighted_waiting_time_mean"', "jobs of a site without partitions request no processors"),
        ('"makespan", partition = "gpu"', "the goal is of the partition 'gpu', and the site has none"),
    ):
        assert sentence in refusal_of(plan_file(tmp_path, text=ON_MACHINES.replace(GOAL, goal)))


def test_a_log_that_is_too_short_at_the_forecast_load_is_rejected(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 1)
    sentence = refusal_of(plan_file(tmp_path, f"{WEEKS}load = 0.5\n"))
    assert "its submissions span 7.0 days; expected 2 whole weeks or more" in sentence


def test_offers_that_a_forecast_on_nodes_cannot_use_are_named(tmp_path: Path) -> None:
    """Twice the load is carried only with more GPUs."""
    heavy = {**DRAWN, "arrivals": {"kind": "poisson", "jobs_per_quantum": 1.1, "quantum_s": 100}}
    answers = answers_of(tmp_path, plan(workload=heavy, **FEW))
    assert answers.answers[0].base.name == "a node with GPUs"
    left_out = options_frame(answers).filter(against_today="left out")["option"].to_list()
    assert left_out == ["two nodes without"]
    assert any(one.startswith("'two nodes without' is left out: 1.1") for one in caveats(answers))


def test_the_built_in_plan_on_nodes_is_about_gpus() -> None:
    from sil.settings import files

    path = files.built_in("plans")["gpu-nodes"]
    prepared = Prepared(read_plan(path), path, None)
    today = prepared.loads[AS_IT_IS.name]
    assert today is not None
    assert today.scarce == "GPUs"
