"""Policies as schedulers: how models are asked, and what they must be."""

from __future__ import annotations

import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

import sil
from scheduler.testing import check_contract
from sil.gym.backfill import Backfill
from sil.trace.facts import Fact
from tests.sil.gym.episodes import Seen, easy, fcfs, unpredictable

LOG = sil.lublin_feitelson(300, processors=64, load=0.9, seed=3)


class LikeStableBaselines:
    """Its models return an action and a state; those of sb3-contrib take masks."""

    observation_space = {"jobs": np.zeros((200, 5))}  # noqa: RUF012

    def predict(
        self, observation: Seen, state: None = None, deterministic: bool = False, action_masks: Any = None
    ) -> tuple[np.ndarray, None]:
        assert deterministic
        assert action_masks.tolist() == [bool(valid) for valid in observation["action_mask"]]
        assert observation["jobs"].shape == (200, 5)
        return np.array(easy(observation)), None


class Plain:
    def predict(self, observation: Seen) -> int:
        return fcfs(observation)


def test_policies_are_replayed_beside_schedulers_with_the_same_statistics() -> None:
    policies = {"e": sil.from_policy(LikeStableBaselines()), "f": sil.from_policy(Plain())}
    found = sil.replay(LOG, {"easy": "easy", "fcfs": "fcfs"} | policies, progress=False).metrics
    of = {row.pop("scheduler"): row for row in found.to_dicts()}
    assert of["e"] == of["easy"]
    assert of["f"] == of["fcfs"]


def test_policies_run_in_sweeps_in_other_processes() -> None:
    table = sil.sweep(LOG, {"fcfs": "fcfs", "p": sil.from_policy(fcfs)}, slices=2, progress=False).table
    waits = table.partition_by("scheduler", as_dict=True)
    assert waits[("fcfs",)]["waiting_time_mean"].to_list() == waits[("p",)]["waiting_time_mean"].to_list()


def test_a_policy_keeps_the_rules_of_schedulers() -> None:
    check_contract(lambda: sil.from_policy(unpredictable(1), window=3), kind="free-nodes")


def test_what_a_policy_raises_ends_the_replay_and_leaves_others_alone() -> None:
    def fails_later(seen: Seen) -> int:
        if seen["jobs"][1, 0] > 0:
            raise RuntimeError("no idea")
        return fcfs(seen)

    with pytest.raises(sil.SchedulerFault, match=r"no idea \(test_policies.py:"):
        sil.replay(LOG, {"p": sil.from_policy(fails_later)}, progress=False)


@pytest.mark.parametrize("answer", [0.5, None, 99, -1, "first", float("nan"), [1, 2]])
def test_an_answer_that_is_no_number_of_an_action_is_a_fault(answer: Any) -> None:
    expected = re.escape(f"the policy answered {answer!r}; expected the number of an action, 0 to 8")
    with pytest.raises(sil.SchedulerFault, match=expected):
        sil.replay(LOG, {"p": sil.from_policy(lambda seen: answer, window=8)}, progress=False)


def test_an_environment_describes_its_last_action_in_text() -> None:
    with gymnasium.make("sil/Backfill-v0", log=LOG, jobs=20, window=8, render_mode="ansi") as environment:
        environment.reset(seed=1)
        environment.step(np.int64(0))
        assert re.fullmatch(r"time_s \d.*, invalid \w+; \d of 9 actions are valid", str(environment.render()))
        for action in (-1, 9, 0.5, None):
            with pytest.raises(sil.UserError, match=r"the action is .* 0 to 8"):
                environment.step(action)
    with pytest.raises(sil.UserError, match="render_mode is 'human'; expected 'ansi'"):
        Backfill(LOG, jobs=20, render_mode="human")


def test_a_policy_is_simulated_step_by_step() -> None:
    simulation = sil.Simulation(LOG, sil.from_policy(easy))
    simulation.run()
    ended = simulation.facts.filter(event=Fact.RUN_ENDED)
    assert len(ended) == len(LOG)


@pytest.mark.parametrize(
    ("model", "settings", "sentence"),
    [
        (3, {}, "3 is no policy; expected a function of observations"),
        (fcfs, {"window": 0}, "window is 0; expected a whole number from 1 on"),
        (fcfs, {"environment": "sil/Backfill"}, "environment is 'sil/Backfill'; expected sil/Backfill-v0 or"),
        (LikeStableBaselines(), {"window": 8}, "window is 8, but the policy has learned with 200"),
    ],
)
def test_what_is_no_policy_is_refused_with_a_sentence(
    model: object, settings: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(sil.UserError, match=sentence):
        sil.from_policy(model, **settings)


def test_a_policy_for_processors_is_refused_on_nodes_of_which_jobs_use_parts() -> None:
    problem = SimpleNamespace(now_s=0.0)
    with pytest.raises(sil.UserError, match="schedules identical processors, not parts of nodes"):
        sil.from_policy(fcfs).schedule(problem)  # type: ignore[arg-type]


def test_only_the_package_of_the_environments_needs_gymnasium() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import sil\n"
        "sil.replay(sil.lublin_feitelson(5, 8), {'p': sil.from_policy(lambda seen: 0)}, progress=False)\n"
        "try:\n    import sil.gym\nexcept sil.UserError as error:\n    print(error)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == (
        "sil.gym needs Gymnasium, which is not installed; install it with: pip install 'sil-testbed[gym]'\n"
    )
