"""Plans compare policies: what other weights, limits and partitions would change."""

from __future__ import annotations

from pathlib import Path

import pytest

from sil.planning.answers import POLICIES, Answers, Prepared, answer_questions
from sil.planning.assumptions import assumptions, caveats
from sil.planning.options import AS_IT_IS
from sil.planning.page import options_frame, sections
from sil.planning.plan_file import Plan
from sil.planning.recommendation import recommendation
from sil.planning.verdicts import PairVerdict
from sil.workers.executor import Inline
from sil.workers.runner import Runner
from tests.sil.planning.test_plan import refusal_of

pytestmark = pytest.mark.usefixtures("in_this_process", "without_figures")

SITE = """
name = "one-node"
machine_classes = [{ name = "node" }]
machines = [{ names = ["n1"], machine_class = "node", processors = 4 }]
partitions = [{ name = "short", nodes = ["n1"] }, { name = "long", nodes = ["n1"] }]
[[job_classes]]
name = "test"
sequential_s = { node = 20 }
request = { cores = 4, partitions = ["short"] }
[[job_classes]]
name = "run"
sequential_s = { node = 180 }
request = { cores = 4, partitions = ["long"] }
"""
CONF = (
    "PriorityType=priority/multifactor\nPriorityWeightPartition=1000\n"
    "PartitionName=short PriorityJobFactor={}\nPartitionName=long PriorityJobFactor={}\n"
    "SchedulerParameters=assoc_limit_stop\n"
)
SIZES = "PriorityType=priority/multifactor\nPriorityWeightJobSize=1000\nPriorityFavorSmall={}\n"
POLICIES_OF_PLAN = [
    {"name": "long first", "policy": "long.conf"},
    {"name": "short first", "policy": ["short.conf"]},
]
DRAWN = {"jobs": 60, "arrivals": {"kind": "poisson", "jobs_per_quantum": 0.8, "quantum_s": 100}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"short.conf": CONF.format(10, 1), "long.conf": CONF.format(1, 10), "site.toml": SITE}
    files |= {
        "small.conf": SIZES.format("YES"),
        "same.conf": SIZES.format("YES"),
        "large.conf": SIZES.format("NO"),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    rows = (
        f"{k} {30 * k} 5 {50 + k % 7} {(8, 1, 2)[k % 3]} -1 -1 {(8, 1, 2)[k % 3]} 100 -1 1 1 1 7 1 2 -1 -1"
        for k in range(1, 80)
    )
    (tmp_path / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    return tmp_path


def plan(**more: object) -> Plan:
    settings = {"name": "x", "schedulers": ["fcfs"], "goals": [{"metric": "mean_waiting"}]}
    return Plan.model_validate(settings | more)


def answers_of(folder: Path, of: Plan) -> Answers:
    return answer_questions(prepared(folder, of), Runner(Inline()), lambda *look: None)


def prepared(folder: Path, of: Plan) -> Prepared:
    return Prepared(of, folder / "plan.toml", None)


def test_the_policy_that_serves_short_jobs_first_shortens_waits_and_the_other_one_lengthens_them(
    folder: Path,
) -> None:
    found = answers_of(folder, plan(site="site.toml", workload=DRAWN, policies=POLICIES_OF_PLAN))
    (answer,) = found.answers
    assert answer.policies is not None
    assert [(effect.option.name, effect.against_today) for effect in answer.policies.effects] == [
        ("short first", PairVerdict.BETTER),
        ("long first", PairVerdict.WORSE),
    ]
    assert recommendation(found).startswith("The policy 'short first' gains most: mean waiting")
    assert next(section.title for section in sections(found)) == "Policies"
    assert set(options_frame(found)["question"]) == {POLICIES}
    assert any("SchedulerParameters=assoc_limit_stop" in sentence for sentence in caveats(found))


def test_that_of_the_plan_is_what_others_are_compared_with(folder: Path) -> None:
    few = {"first_replications": 2, "most_replications": 3}
    under = plan(site="site.toml", workload=DRAWN, policy="short.conf", policies=POLICIES_OF_PLAN, **few)
    found = answers_of(folder, under)
    (answer,) = found.answers
    assert answer.policies is not None
    assert answer.policies.effect("short first").gain.mean == 0.0
    assert answer.policies.effect("long first").gain.mean < 0.0
    said = [sentence for sentence in caveats(found) if "has no effect" in sentence]
    assert said == ["'short first' has no effect: no goal differs in any of 3 replications."]


def test_a_policy_of_a_plan_may_state_only_what_differs(folder: Path) -> None:
    few = {"first_replications": 2, "most_replications": 2}
    changed = {"name": "no factor", "policy_settings": "PriorityWeightPartition=0"}
    (folder / "flat.conf").write_text(CONF.format(10, 1).replace("=1000", "=0"))
    edited = {"name": "edited", "policy": "flat.conf"}
    text = plan(site="site.toml", workload=DRAWN, policy="short.conf", policies=[changed, edited], **few)
    found = answers_of(folder, text)
    (answer,) = found.answers
    assert answer.policies is not None
    stated = {
        "The policy: 'short.conf'.",
        "'no factor': 'PriorityWeightPartition=0'.",
        "'edited': 'flat.conf'.",
    }
    assert stated <= {*assumptions(found)}
    one, other = (answer.policies.effect(name).gain.mean for name in ("no factor", "edited"))
    assert one == other != 0.0


def test_on_the_machine_of_a_log_policies_are_compared_too(folder: Path) -> None:
    names = ["same", "large"]
    of = plan(
        log={"file": "log.swf", "parts": 4},
        policy="small.conf",
        policies=[{"name": name, "policy": f"{name}.conf"} for name in names],
        offers=[{"name": "more", "processors": 4, "price": 1.0}],
        first_replications=2,
    )
    (answer,) = answers_of(folder, of).answers
    assert answer.policies is not None
    same, large = (answer.policies.effect(name).gain.mean for name in names)
    assert same == 0.0
    assert large != 0.0
    assert answer.marginal is not None
    assert answer.marginal.effect("more").gain.mean > 0.0


def test_a_plan_says_where_its_warm_up_is_too_short_for_the_waits(folder: Path) -> None:
    def said(jobs: int) -> list[str]:
        few = {"first_replications": 2, "most_replications": 2, "warm_up_jobs": jobs}
        of = plan(site="site.toml", workload=DRAWN, policy="short.conf", policies=POLICIES_OF_PLAN, **few)
        return [each for each in caveats(answers_of(folder, of)) if each.startswith("The warm-up")]

    (sentence,) = said(5)
    assert sentence.startswith("The warm-up is too short: it lasts 0.")
    assert sentence.endswith(" jobs in all.")
    assert said(0) == []


@pytest.mark.parametrize(
    "on", [{"site": "site.toml", "workload": DRAWN}, {"log": {"file": "log.swf", "parts": 10}}]
)
def test_a_changed_policy_file_makes_other_runs(on: dict[str, object], folder: Path) -> None:
    def keys() -> dict[str, str]:
        at = prepared(
            folder, plan(**on, policy="small.conf", policies=[{"name": "b", "policy": "large.conf"}])
        )
        return {option.name: at.scenario.run(option, "fcfs", 0).key for option in (AS_IT_IS, *at.policies)}

    before = keys()
    (folder / "large.conf").write_text(SIZES.format("NO").replace("1000", "900"))
    after = keys()
    assert before[AS_IT_IS.name] == after[AS_IT_IS.name]
    assert before["b"] != after["b"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("[[policies]]\nname = 'a'\npolicy = 'short.conf'\n" * 2, "two options are named 'a'"),
        (
            "[[policies]]\nname = 'a'\npolicy = 'short.conf'\n[[queues]]\nname = 'q'\n",
            "policy and queues both",
        ),
        ("[[policies]]\nname = 'a'\npolicy = 'none.conf'\n", "none.conf"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(more: str, sentence: str, folder: Path) -> None:
    text = "name = 'x'\nsite = 'site.toml'\nschedulers = ['fcfs']\n"
    (folder / "plan.toml").write_text(f"{text}workload = {{ jobs = 5 }}\n{more}")
    assert sentence in refusal_of(folder / "plan.toml")
