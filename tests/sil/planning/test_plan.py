"""`sil plan` from its file to its page, and its error messages."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from scheduler import UserError
from sil.outcome.metrics import metric_of_jobs
from sil.outcome.statistics import Interval
from sil.planning.answers import Answer, Answers, Prepared, answer_questions
from sil.planning.assumptions import caveats
from sil.planning.options import AS_IT_IS, Option, one_of_each
from sil.planning.page import OPTIONS, PAGE, sections
from sil.planning.plan_file import Plan, read_plan
from sil.planning.ranking import Criteria, Effect, OptionRanking
from sil.planning.recommendation import recommendation
from sil.planning.runs import RefusedShares
from sil.planning.searches import BestBuy
from sil.planning.sites import OnLog
from sil.planning.verdicts import PairVerdict, Standings
from sil.settings import files
from sil.site.past import past_arrivals
from sil.workers.executor import Inline
from sil.workers.runner import Runner
from sil.workload.lublin import Lublin
from sil.workload.swf_writing import write_swf
from sil.world.guard.faults import SchedulerFault
from site_db.store import parse_address
from tests.builders import TINY_SITE
from tests.commands import sil, succeeded, the_sentence
from tests.sil.planning.fake_runs import plan

pytestmark = pytest.mark.usefixtures("in_this_process", "without_figures")

PLAN = """
name = "tiny-plan"
question = "What now?"
site = "tiny.toml"
schedulers = ["mct"]
most_replications = 12

[workload]
jobs = 40
mix = { short = 1 }
arrivals = { kind = "poisson", jobs_per_quantum = 1.6, quantum_s = 10 }

[run_times]
kind = "lognormal"
coefficient_of_variation = 0.2
"""
FEW = PLAN.replace("most_replications = 12", "first_replications = 2\nmost_replications = 3")
"""Replications where their number does not matter."""

OFFERS = """
[[offers]]
name = "two fast"
changes = ["2 x fast"]
price = 100
limit = 3

[[offers]]
name = "one slow"
changes = ["1 x slow"]
price = 60
"""
ONE_OFFER = '\n[[offers]]\nname = "one fast"\nchanges = ["1 x fast"]\nprice = 100\n'


def plan_file(folder: Path, more: str = OFFERS, text: str = PLAN) -> Path:
    (folder / "tiny.toml").write_text(TINY_SITE)
    path = folder / "plan.toml"
    path.write_text(text + more)
    return path


def answers_of(path: Path) -> Answers:
    return answer_questions(Prepared(read_plan(path), path, None), Runner(Inline()), lambda *look: None)


def refusal_of(path: Path) -> str:
    """The sentence with which a plan is refused before anything runs."""
    with pytest.raises(UserError) as refused:
        Prepared(read_plan(path), path, None)
    return str(refused.value)


@pytest.mark.reads_report
def test_a_plan_writes_a_page_tables_and_a_recommendation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = plan_file(tmp_path)
    done = succeeded("plan", path, "--budget", "250", "--out", tmp_path / "out", "--workers", "2")
    assert "With 250, buy '2 x two fast'" in " ".join(done.output.split())
    assert "another interval in each table" in " ".join(done.output.split())
    assert max(len(line.rstrip()) for line in done.output.splitlines() if " ± " in line) <= 80
    options = pl.read_csv(tmp_path / "out" / OPTIONS)
    assert set(options["question"]) == {"each offer", "best buy"}
    assert options.filter(question="each offer")["option"].to_list()[0] == "two fast"
    page = (tmp_path / "out" / PAGE).read_text()
    for text in ("What now?", "buy &#39;2 x two fast&#39;", "Gain by job class", "common random numbers"):
        assert text in page
    assert (tmp_path / "out" / "effects.png").stat().st_size > 10_000
    again = sil("plan", path, "--budget", "250", "--out", tmp_path / "out", "--json")
    printed = json.loads(again.stdout)
    assert printed["recommendation"].startswith("With 250, buy '2 x two fast'")
    assert [row["option"] for row in printed["options"]] == options["option"].to_list()


def answers_with(of: Plan, *answer: object) -> Answers:
    return Answers(of, "s", (), (), (Answer("olb", AS_IT_IS, RefusedShares(0.0, {}), *answer),), {}, ())  # type: ignore[arg-type]


def test_only_the_job_classes_that_gain_or_lose_most_are_shown() -> None:
    of = plan()
    key, gain = of.goals[0].key, Interval(1.0, 0.1)
    effects = tuple(
        Effect(
            Option(name, cost=1.0),
            2,
            gain,
            None,
            gain,
            {key: 1.0},
            {f"class {k}": Interval(sign * k, 0.5) for k in range(16)},
            PairVerdict.BETTER,
        )
        for name, sign in (("gains", 1.0), ("loses", -1.0))
    )
    ranking = OptionRanking(Criteria(), {key: 1.0}, effects, Standings(["gains", "loses"]))
    *_, section = sections(answers_with(of, ranking, None, None, None))
    (part,) = section.parts
    assert part.table is not None
    assert part.table.head == ["job class", "gains", "loses"]
    assert [row[0] for row in part.table.rows] == [f"class {k}" for k in range(15, 3, -1)]
    assert list(part.table.rows[0]) == ["class 15", "15.00 ± 0.50", "-15.00 ± 0.50"]
    assert "The largest; 4 other job classes changed less or not at all" in section.note


@pytest.mark.parametrize(
    ("against_choice", "said", "column"),
    [
        (PairVerdict.UNSETTLED, "'cheap' for 44 may do as well: this is not settled.", "unsettled"),
        (PairVerdict.WORSE, "", "worse"),
    ],
)
def test_the_recommended_option_is_compared_with_what_is_cheaper(
    against_choice: PairVerdict, said: str, column: str
) -> None:
    """The cheap one is worse than the best one, with which the recommended one is tied."""
    of = plan(budget=60.0)
    key, gain, standings = of.goals[0].key, Interval(20.0, 0.1), Standings(["best", "tied", "cheap"])
    standings.settle("best", "tied", PairVerdict.TIE)
    standings.settle("best", "cheap", PairVerdict.BETTER)
    standings.settle("cheap", "tied", against_choice)
    effects = tuple(
        Effect(Option(name, cost=cost), 40 + int(cost), gain, None, gain, {key: 1.0}, {}, PairVerdict.BETTER)
        for name, cost in (("best", 54.0), ("tied", 52.0), ("cheap", 44.0))
    )
    against = {"best": Interval(0.1, 0.05), "cheap": Interval(-0.1, 0.2)}
    ranking = OptionRanking(Criteria(only_first=True), {key: 100.0}, effects, standings, "tied", against)
    answers = answers_with(of, None, BestBuy(ranking, 3, 3), None, None)
    change = "mean turnaround falls by 20.0 ± 0.1 %, to 1 s."
    assert recommendation(answers) == f"With 60, buy 'tied' for 52: {change} {said}".strip()
    (section,) = sections(answers)
    assert "different numbers of replications" in section.note
    table = section.parts[0].table
    assert table is not None
    rows = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert [row[""] for row in rows] == ["C", "B", "A"], "the letters of the chart, in order of cost"
    assert [row["compared with it"] for row in rows] == ["tie", "", column]
    assert rows[1]["better than the recommended (s)"] == "recommended"


@pytest.mark.processes
def test_no_run_is_repeated_and_results_do_not_depend_on_workers(tmp_path: Path) -> None:
    path = plan_file(tmp_path, ONE_OFFER, FEW)
    first = sil("plan", path, "--out", tmp_path / "one", "--workers", "1")
    other = sil("plan", path, "--out", tmp_path / "two", "--workers", "2")
    assert first.exit_code == other.exit_code == 0, first.output + other.output
    for name in (OPTIONS, "job_classes.csv", PAGE):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    kept = (tmp_path / "one" / "runs.db").stat().st_mtime_ns
    again = sil("plan", path, "--out", tmp_path / "one", "--workers", "1")
    assert again.output == first.output
    assert (tmp_path / "one" / "runs.db").stat().st_mtime_ns == kept


@pytest.mark.long
def test_a_cluster_is_worth_little_to_a_scheduler_that_cannot_use_it(tmp_path: Path) -> None:
    cluster = '\n[[offers]]\nname = "pair"\nchanges = ["2 x slow as cluster new over lan"]\nprice = 50\n'
    path = plan_file(tmp_path, cluster, PLAN.replace('["mct"]', '["pjs", "sjs"]'))
    (tmp_path / "tiny.toml").write_text(TINY_SITE.replace("pair = 6", "pair = 5.1"))
    pjs, sjs = (answer.marginal.effects[0].gain for answer in answers_of(path).answers)
    assert pjs.mean > 5 * sjs.mean > 0.0


@pytest.mark.long
def test_the_smallest_size_that_meets_a_target_is_recommended(tmp_path: Path) -> None:
    answers = answers_of(plan_file(tmp_path, OFFERS + '\n[size]\noffer = "two fast"\ntarget = 12\n'))
    reported = "1 x two fast is the least that meets the target (Mean turnaround (s) at most 12)"
    assert reported in recommendation(answers)
    too_much = OFFERS + '\n[size]\noffer = "two fast"\ntarget = 4\n'
    out_of_reach = answers_of(plan_file(tmp_path, too_much, FEW))
    assert "cannot be met with 'two fast'; with all 3 it is" in recommendation(out_of_reach)


def test_several_offers_may_together_handle_a_load_that_none_handles_alone(tmp_path: Path) -> None:
    """The machines carry 1.33 jobs in 10 s, 3 with two more; effects are relative to those."""
    offers = "".join(
        f'\n[[offers]]\nname = "{name}"\nchanges = ["1 x fast"]\nprice = 50\n' for name in ("one", "another")
    )
    text = FEW.replace("jobs_per_quantum = 1.6", "jobs_per_quantum = 4.2")
    answers = answers_of(plan_file(tmp_path, offers, "budget = 100\n" + text))
    assert answers.answers[0].base.name == "one + another"
    assert "buy 'one + another' for 100: it is the least that carries the forecast" in recommendation(answers)
    with pytest.raises(UserError, match="times with 'another'"):
        answers_of(plan_file(tmp_path, offers, "budget = 60\n" + text))


def test_utilisation_counts_the_measured_time_and_the_selected_jobs() -> None:
    jobs = pl.DataFrame({"submission_time": [10.0, 20.0], "finish_time": [40.0, 50.0]})
    held = pl.DataFrame({"from_s": [0.0, 10.0, 60.0], "until_s": [30.0, 40.0, 90.0], "tasks": [1, 2, 2]})
    assert metric_of_jobs("utilisation", jobs, held, 4) == 100.0 * (20 + 60) / (4 * 40)
    on_gpus = held.with_columns(requested_gpus=pl.lit(1.5))
    assert metric_of_jobs("gpu_utilisation", jobs, on_gpus, 64, 3) == 100.0 * 1.5 * (20 + 30) / (3 * 40)


def test_retirements_are_ranked_by_harm(tmp_path: Path) -> None:
    text = PLAN.replace("jobs_per_quantum = 1.6", "jobs_per_quantum = 1")
    answers = answers_of(plan_file(tmp_path, "\n[retire]\ncount = 1\n", text))
    (answer,) = answers.answers
    assert [effect.option.name for effect in answer.retire.effects] == [
        "without 1 x slow",
        "without 1 x fast of pair",
    ]
    assert recommendation(answers) == (
        "The least harmful retirement is without 1 x slow: mean turnaround stays at 11.53 s; whether it "
        "makes a difference is not settled: no replication of 12 shows a difference."
    )


def test_indispensable_machines_are_named(tmp_path: Path) -> None:
    answers = answers_of(plan_file(tmp_path, "\n[retire]\ncount = 1\n", FEW.replace("1.6", "2.2")))
    assert answers.indispensable == ("without 1 x fast of pair",)
    assert any(
        s == "Without 1 x fast of pair, the site could not carry the forecast." for s in caveats(answers)
    )


def test_impossible_combinations_are_left_out(tmp_path: Path) -> None:
    # There are two slow machines: neither can both be upgraded twice, nor go after that.
    upgrade = OFFERS.replace('changes = ["2 x fast"]', 'changes = [{ upgrade = "2 x slow to fast" }]')
    (answer,) = answers_of(plan_file(tmp_path, upgrade, "budget = 220\n" + FEW)).answers
    assert answer.best_buy is not None
    names = [effect.option.name for effect in answer.best_buy.ranking.effects]
    assert "two fast" in names
    assert not any("2 x two fast" in name for name in names)


def test_ties_are_reported_in_one_sentence(tmp_path: Path) -> None:
    alike = "".join(
        f'\n[[offers]]\nname = "from {vendor}"\nchanges = ["1 x fast"]\nprice = 50\n' for vendor in "ABC"
    )
    reported = list(caveats(answers_of(plan_file(tmp_path, alike, FEW))))
    assert (
        "'from A' is tied with 'from B' and 'from C' (each offer): the difference is less than 1 %."
        in reported
    )
    assert "'from B' is tied with 'from C' (each offer): the difference is less than 1 %." in reported
    assert sum("tied" in sentence for sentence in reported) == 2


def test_an_offer_of_memory_alone_changes_no_run_time(tmp_path: Path) -> None:
    memory = '\n[[offers]]\nname = "memory"\nchanges = [{ change = "slow", memory_mb = 512 }]\nprice = 50\n'
    reported = caveats(answers_of(plan_file(tmp_path, memory, FEW)))
    about_memory = "'memory': on dedicated machines no run time depends on memory"
    assert any(sentence.startswith(about_memory) for sentence in reported)


@pytest.mark.parametrize(("mapping", "is_said"), [("commit", True), ("remap", False)])
def test_a_plan_says_that_jobs_which_keep_their_machines_wait_longer(
    mapping: str, is_said: bool, tmp_path: Path
) -> None:
    queue = f'\n[[queues]]\nname = "work"\nmapping = "{mapping}"\n'
    reported = caveats(answers_of(plan_file(tmp_path, OFFERS + queue, FEW)))
    assert any("Jobs of the queue 'work' keep the machine" in sentence for sentence in reported) is is_said


def test_machines_with_a_space_in_their_names_can_be_retired(tmp_path: Path) -> None:
    path = plan_file(tmp_path, "\n[retire]\ncount = 2\n", FEW.replace("1.6", "1"))
    (tmp_path / "tiny.toml").write_text(TINY_SITE.replace("s[1-2]", "the slow one [1-2]"))
    (answer,) = answers_of(path).answers
    assert answer.retire is not None
    assert answer.retire.effects[0].option.name == "without 2 x slow"


def test_offers_for_an_overloaded_site_are_compared_with_each_other(tmp_path: Path) -> None:
    answers = answers_of(plan_file(tmp_path, text=FEW.replace("1.6", "2.8")))
    assert answers.loads[AS_IT_IS.name].is_too_much
    reported = list(caveats(answers))
    assert any("As it is, the site cannot carry the forecast" in sentence for sentence in reported)
    assert any(sentence.startswith("'as it is' is left out: 1.0") for sentence in reported)


def test_combinations_that_cannot_carry_the_forecast_are_named_on_page_console_and_in_the_table(
    tmp_path: Path,
) -> None:
    offers = OFFERS.replace("price = 60", "price = 60\nlimit = 3")
    path = plan_file(tmp_path, offers, FEW.replace("1.6", "4.4"))
    done = succeeded("plan", path, "--budget", "200", "--out", tmp_path / "out")
    sentence = "Left out of the best buy, since with them the site could not carry the forecast"
    assert f"{sentence}, or they exclude each other: '2 x one slow'" in " ".join(done.output.split())
    assert sentence in (tmp_path / "out" / PAGE).read_text()
    options = pl.read_csv(tmp_path / "out" / OPTIONS)
    left_out = options.filter(against_today="left out").select("question", "option").rows()
    assert ("each offer", "one slow") in left_out
    assert ("best buy", "2 x one slow") in left_out


MOST = "most_replications = 12"
KIND = "goals = [{ %s = %r }]"


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ('["2 x fast"]', '["2 x fsat"]', "line 19: add 2 x fsat: the site has no machine class 'fsat' (did"),
        ("price = 100", "price = -100", "line 20: offers[0].price = -100: expected a number greater than 0"),
        ("price = 100", "price = 0", "offers[0].price = 0: expected a number greater than 0"),
        ('name = "one slow"', 'name = "two fast"', "two options are named 'two fast'"),
        (MOST, "budget = 50", "budget is 50, which buys nothing: the cheapest offer, 'one slow'"),
        (MOST, KIND % ("job_class", "long"), "no job of job class 'long' ever arrives"),
        (MOST, KIND % ("queue", "night"), "no job of queue 'night' ever arrives"),
        (MOST, KIND % ("metric", "speed"), "goals[0].metric = \"speed\": expected 'mean_turnaround'"),
        ("= 1.6", "= 40", "the forecast is 15.00 times what the site can carry"),
        (MOST, "size = { offer = 'three', target = 1 }", "size.offer is 'three'; expected one of two fast"),
        (MOST, "[size]\noffer = 'two fast'\ntarget = 60", "size.target cannot be a utilisation"),
        ("jobs = 40", "jobs = 4\nwarm_up = 3", "unknown key 'warm_up'; known here are"),
        ('schedulers = ["mct"]', 'schedulers = ["easy"]', "needs one that maps jobs to machines"),
        ('site = "tiny.toml"', 'site = "nowhere.toml"', "there is no file"),
        ('["mct"]', '["batsim+tcp://127.0.0.1:28000"]', "listens for one run, but a plan has many"),
        (OFFERS, "", "the plan has no options: add"),
        ('site = "tiny.toml"\n', "", "site is missing; name a built-in one, the path of a site file, or"),
        (OFFERS, "[retire]\nmachine_classes = ['fats']", "no machine class 'fats'; it has fast, slow"),
        (OFFERS, "[retire]\ncount = 3", "not 3 machines of one class in the same clusters anywhere"),
        ('name = "tiny-plan"', "name = 5", "plan.toml, line 2: name = 5"),
    ],
)
def test_invalid_plans_are_rejected_with_one_sentence(
    find: str, put: str, message: str, tmp_path: Path
) -> None:
    text = (PLAN + OFFERS).replace(find, put, 1)
    if "[size]" in put:
        text = KIND % ("metric", "utilisation") + text
    assert message in refusal_of(plan_file(tmp_path, "", text))


def test_a_refused_plan_ends_the_command_with_one_sentence(tmp_path: Path) -> None:
    path = plan_file(tmp_path, OFFERS.replace("2 x fast", "2 x fsat"))
    assert "the site has no machine class 'fsat'" in the_sentence(
        sil("plan", path, "--out", tmp_path / "out")
    )


def test_a_goal_without_jobs_is_rejected(tmp_path: Path) -> None:
    text = FEW.replace("mix = { short = 1 }", "mix = { short = 1000, long = 1 }")
    path = plan_file(tmp_path, text='goals = [{ job_class = "long" }]' + text)
    reported = the_sentence(sil("plan", path, "--out", tmp_path / "out", "--workers", "1"))
    assert "in replication 0 no job of long arrived; forecast more jobs" in reported


def test_refused_jobs_are_reported(tmp_path: Path) -> None:
    def of_users(users: str) -> Path:
        path = plan_file(tmp_path, text=FEW.replace("mix =", f"users = {users}\nmix ="))
        only_ann = f'only_listed_users = true\n{TINY_SITE}\n[[users]]\nname = "ann"\n'
        (tmp_path / "tiny.toml").write_text(only_ann)
        return path

    reported = caveats(answers_of(of_users("{ ann = 3, cy = 1 }")))
    (sentence,) = (one for one in reported if "refused" in one)
    assert re.fullmatch(r"2\d % of the jobs that arrive are refused by the site's rules .*", sentence)
    reported = the_sentence(sil("plan", of_users("{ cy = 1 }"), "--out", tmp_path / "out", "--workers", "1"))
    assert "in replication 0 the site's rules for users and queues refused all jobs" in reported


def test_a_plan_whose_only_scheduler_misbehaves_ends_with_the_broken_rule(tmp_path: Path) -> None:
    path = plan_file(tmp_path)
    done = sil("plan", path, "--out", tmp_path / "out", "--scheduler", "tests.faulty:Raises")
    assert done.exit_code == 1
    assert "broke the rule raises-nothing" in done.output


def test_a_misbehaving_scheduler_takes_no_answer_from_the_others(tmp_path: Path) -> None:
    wrong = "tests.faulty:Raises"
    path, found = plan_file(tmp_path, ONE_OFFER, FEW), {}
    for out, others in (("alone", []), ("among", ["--scheduler", wrong])):
        done = sil("plan", path, "--out", tmp_path / out, "--scheduler", "mct", *others)
        found[out] = (tmp_path / out / OPTIONS).read_text()
    assert done.exit_code == 1
    told = " ".join(done.output.split())
    assert f"Fault: {wrong} broke the rule raises-nothing (at " in told
    assert "in replication 0: Raises.schedule raised " in told
    assert found["among"] == found["alone"]
    assert f"{wrong} broke the rule" in (tmp_path / "among" / PAGE).read_text()


@pytest.mark.parametrize("path", files.built_in("plans").values(), ids=lambda path: path.stem)
def test_built_in_plans_have_sites_that_can_handle_their_load(path: Path) -> None:
    prepared = Prepared(read_plan(path), path, None)
    assert all(prepared.carries(option) for option in (AS_IT_IS, *prepared.offers))


HISTORY = """
name = "from-history"
site = "lab"
schedulers = ["easy"]
first_replications = 2
most_replications = 3

[history]
jobs = 40
load = 0.9

[[offers]]
name = "two more"
changes = ["2 x 4-cpus"]
price = 100
"""


def test_a_forecast_may_repeat_past_arrivals(here: Path) -> None:
    (here / "plan.toml").write_text(HISTORY.replace('site = "lab"\n', ""))
    succeeded("db", "init")
    log = files.FIXTURES / "logs" / "slurm.txt"
    assert sil("db", "import-sacct", log, "--db", "site.db#lab").exit_code in (0, 1)
    history = read_plan(here / "plan.toml").history
    assert history is not None
    forecast = past_arrivals(history, (), parse_address("site.db#lab"))
    assert forecast is not None
    arrivals, mix = forecast.arrivals, forecast.mix
    # Twelve jobs used their nodes, completed or not, the first at 8:00 and the last at 11:00.
    assert arrivals.jobs_per_quantum / arrivals.quantum_s == pytest.approx(0.9 * 11 / 10_800)  # type: ignore[union-attr]
    assert mix == {
        "ann/render.sh/1 node with 4 CPUs/batch": 4 / 12,
        "bob/fit/1 node with 1 CPU/batch": 3 / 12,
        "cy/flow/4 nodes with 4 CPUs each/batch": 3 / 12,
        "dee/couple/1 node with 4 CPUs/batch": 2 / 12,
    }
    succeeded("plan", "plan.toml", "--site", "site.db#lab", "--workers", "1")
    page = (here / "sil-plan-from-history" / PAGE).read_text()
    assert "Plan from-history, site lab, seed 1" in page
    assert "0.9 times what arrived ever, by the site&#39;s database" in page
    assert "name its database with --site" in the_sentence(sil("plan", "plan.toml"))


def test_resources_that_are_down_are_reported(tmp_path: Path) -> None:
    path, db = plan_file(tmp_path, text=FEW.replace('site = "tiny.toml"\n', "")), tmp_path / "site.db"
    for command in (["init"], ["import", tmp_path / "tiny.toml"], ["state", "s2", "down"]):
        succeeded("db", *command, "--db", db)
    prepared = Prepared(read_plan(path), path, parse_address(str(db)))
    reported = list(caveats(answer_questions(prepared, Runner(Inline()), lambda *look: None)))
    assert any(
        one.startswith("Down at the site today, and in all runs") and "'s2'" in one for one in reported
    )


def test_a_history_without_jobs_is_rejected(here: Path) -> None:
    (here / "plan.toml").write_text(HISTORY.replace("lab", "hcs-2001").replace("x batch", "x pii-450"))
    assert sil("db", "init").exit_code == sil("db", "import", "hcs-2001").exit_code == 0
    reported = the_sentence(sil("plan", "plan.toml", "--site", "site.db"))
    assert "has 0 jobs of the site 'hcs-2001', too few to estimate the arrival rate" in reported


LOG = """
name = "of-a-log"
schedulers = ["easy", "fcfs"]

[log]
file = "log.swf"
parts = 10

[[goals]]
metric = "mean_waiting"

[size]
offer = "eight"
target = 1.0

[[offers]]
name = "eight"
processors = 8
price = 10
limit = 6
"""


def logged(folder: Path, more: str = "", text: str = LOG) -> Path:
    log = Lublin().jobs(600, 32, np.random.default_rng(5)).at_load(0.8)
    write_swf(folder / "log.swf", log)
    (folder / "plan.toml").write_text(text + more)
    return folder / "plan.toml"


def test_processors_can_be_added_to_the_machine_of_a_log(tmp_path: Path) -> None:
    goals = ("mean_bounded_slowdown", "per_processor_slowdown_mean", "weighted_waiting_time_mean")
    more = "".join(f'[[goals]]\nmetric = "{goal}"\n' for goal in goals)
    succeeded("plan", logged(tmp_path, more), "--out", tmp_path / "out", "--workers", "2")
    options = pl.read_csv(tmp_path / "out" / OPTIONS)
    easy, fcfs = (options.filter(scheduler=name).row(0, named=True) for name in ("easy", "fcfs"))
    assert easy["gain"] > 0
    assert easy["mean_waiting"] < fcfs["mean_waiting"]
    assert easy["per_processor_slowdown_mean"] < easy["mean_bounded_slowdown"]
    assert easy["weighted_waiting_time_mean"] > 0.0
    page = (tmp_path / "out" / PAGE).read_text()
    assert "log.swf at 1 times its load, in 10 consecutive parts" in page
    assert "Gain by job class" not in page


def test_a_plan_for_a_log_needs_no_site(tmp_path: Path) -> None:
    reported = the_sentence(sil("plan", logged(tmp_path), "--site", "site.db"))
    assert "'of-a-log' is a plan for the machine of a log; --site is for plans with a site" in reported


def test_a_pipe_that_a_plan_names_is_refused(tmp_path: Path) -> None:
    path = logged(tmp_path)
    (tmp_path / "log.swf").unlink()
    os.mkfifo(tmp_path / "log.swf")
    assert "log.swf: this is not a regular file; expected one" in refusal_of(path)


def test_parts_of_a_log_measure_each_job_once_in_order_after_others(tmp_path: Path) -> None:
    plan = read_plan(logged(tmp_path))
    scenario = OnLog(plan, tmp_path)
    parts = [scenario.run(AS_IT_IS, "easy", replication).simulate() for replication in range(10)]
    assert [job for part in parts for job in sorted(part.jobs["job_id"])] == list(range(1, 601))
    assert sorted(parts[1].all_jobs["job_id"]) == list(range(1, 151)), "60 before, and 30 after"
    today, more = scenario.load(AS_IT_IS), scenario.load(one_of_each(plan)[0])
    assert today is not None
    assert more is not None
    assert today.rho == pytest.approx(0.8, rel=0.05)
    assert more.rho == pytest.approx(today.rho * 32 / 40)


NO_EFFECT = "has no effect on the rigid jobs of a log"


@pytest.mark.parametrize(
    ("find", "put", "message"),
    [
        ("log.swf", "nowhere.swf", "nowhere.swf"),
        (
            "processors = 8",
            'changes = ["1 x fast"]',
            "needs 'processors' with this forecast, and no 'changes'",
        ),
        ('"easy", "fcfs"', '"mct"', "the replay of a log needs one that starts jobs on free nodes"),
        ('"mean_waiting"', '"mean_waiting"\njob_class = "x"', "goals does not apply to the rigid jobs"),
        ("parts = 10", "parts = 5", "log.parts is 5; expected first_replications, 10, or more"),
        (
            "[log]",
            "most_replications = 800\n[log]",
            "800, which has no effect: each of the 10 parts of the log",
        ),
        ("parts = 10", "load = 9", "the forecast is 7."),
        ("[log]", "[history]\njobs = 5\n[log]", "one of the tables [workload], [history] and [log]"),
        ("[log]", "[guard]\nreasons = true\n[log]", f"plan.toml, line 6: guard.reasons {NO_EFFECT}; leave"),
        ("[log]", "[guard]\ndecision_cost = 'fixed(seconds=1)'\n[log]", f"guard.decision_cost {NO_EFFECT}"),
        ("[log]", "[experience]\nlearning = 'run'\n[log]", f"line 5: experience {NO_EFFECT}"),
        ("[log]", "[messages]\n[log]", "messages does not apply to the rigid jobs of a log"),
        ("[log]", "[[clock_jumps]]\nat_s = 1\noffset_s = 1\n[log]", "clock_jumps does not apply"),
        ("[log]", "[rounds]\nkind = 'every_quantum'\n[log]", f"rounds {NO_EFFECT}"),
    ],
)
def test_invalid_plans_for_a_log_are_rejected(find: str, put: str, message: str, tmp_path: Path) -> None:
    assert message in refusal_of(logged(tmp_path, text=LOG.replace(find, put, 1)))


EDITED = """
from scheduler.free_nodes.rigid import Rigid


class Edited(Rigid):
    def __init__(self) -> None:
        super().__init__(backfilling="{backfilling}")
"""


def test_a_plan_for_a_log_is_simulated_again_after_its_scheduler_is_edited(importable: Path) -> None:
    path = logged(importable, text=LOG.replace('"easy", "fcfs"', '"edited_on_a_log:Edited", "fcfs"'))
    runs = []
    for backfilling in ("none", "easy"):
        (importable / "edited_on_a_log.py").write_text(EDITED.format(backfilling=backfilling))
        scenario = OnLog(read_plan(path), importable)
        runs.append([scenario.run(AS_IT_IS, name, 0).key for name in scenario.plan.schedulers])
    (edited_before, fcfs_before), (edited_after, fcfs_after) = runs
    assert edited_before != edited_after
    assert fcfs_before == fcfs_after


def test_the_decision_limit_of_a_plan_for_a_log_is_enforced(tmp_path: Path) -> None:
    text = LOG.replace('"easy", "fcfs"', '"tests.faulty_on_free_nodes:NeverReturns"')
    path = logged(tmp_path, "[guard]\ndecision_limit_s = 0.2\n", text)
    run = OnLog(read_plan(path), tmp_path).run(AS_IT_IS, "tests.faulty_on_free_nodes:NeverReturns", 0)
    with pytest.raises(SchedulerFault, match=r"0\.2 s"):
        run()
