"""`sil/Mapping-v0`: batches of jobs, mapped one by one."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import sil
from scheduler.mapping.greedy import MinMin
from scheduler.mapping.immediate import Mct
from scheduler.mapping.problem import MappingProblem
from sil.gym.mapping import Mapping, Placed
from tests.sil.gym.episodes import Seen, played

SMALL = [[3.0, 1.0], [2.0, 5.0], [4.0, np.inf]]


def mct(seen: Seen) -> int:
    """The first job, to the machine that completes it first: by times, which are shown as t / (t + mean)."""
    jobs, machine = (seen[name].astype(np.float64) for name in ("jobs", "machine"))
    ready, takes = machine[:-1], jobs[0]
    with np.errstate(divide="ignore"):
        return int((ready / (1.0 - ready) + takes / (1.0 - takes)).argmin())


def test_rewards_sum_up_to_minus_the_mean_turnaround_or_the_makespan() -> None:
    # Job 1 to machine 0 at 2 s; job 2 cannot run on machine 1, so job 0 goes there: 1 s; 6 s.
    actions = [2, 1, 0]
    for reward, expected in (("turnaround_time", -(2 + 1 + 6) / 3), ("makespan", -6.0)):
        env = Mapping(etc=SMALL, reward=reward, window=2)
        env.reset(seed=1)
        paid, said = 0.0, list[tuple[int, int, bool]]()
        for action in actions:
            _, reward_of_step, is_over, _, info = env.step(action)
            paid += float(reward_of_step)
            said.append((info["job"], info["machine"], info["invalid"]))
        assert is_over
        assert paid == pytest.approx(expected)
        assert said == [(1, 0, False), (0, 1, False), (2, 0, False)]


def test_an_excluded_action_maps_the_first_job_to_the_machine_that_completes_it_first() -> None:
    env = Mapping(etc=SMALL, window=3)
    seen, _ = env.reset(seed=1)
    assert seen["action_mask"].tolist() == [1, 1, 1, 1, 1, 0]
    *_, info = env.step(5)  # job 2 on machine 1, where it cannot run
    assert (info["job"], info["machine"], info["invalid"]) == (0, 1, True)


def test_a_policy_maps_as_a_scheduler_what_it_maps_in_its_environment() -> None:
    env = Mapping(jobs=40, machines=5, window=8)
    steps = list(played(env, mct, seed=4))[1:]
    etc_s = env._batch._passes[0].etc_s  # type: ignore[attr-defined]
    problem = MappingProblem.from_matrix(etc_s)
    scheduler = sil.from_policy(mct, environment="sil/Mapping-v0", window=8)
    made = scheduler.schedule(problem).assignments
    assert [(each.job, each.resource) for each in made] == [
        (info["job"], info["machine"]) for *_, info in steps
    ]
    expected = Mct().schedule(problem).assignments
    assert sorted(zip(made.jobs, made.resources, strict=True)) == sorted(
        zip(expected.jobs, expected.resources, strict=True)
    )
    assert sum(reward for _, reward, _, _ in steps) == pytest.approx(-made.completion_s.mean())


def test_a_window_as_large_as_the_batch_can_express_min_min() -> None:
    def shortest_first(seen: Seen) -> int:
        jobs, machine = seen["jobs"].astype(np.float64), seen["machine"].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = jobs / (1.0 - jobs) + machine[:-1] / (1.0 - machine[:-1])
        return int(np.where(seen["action_mask"].reshape(ends.shape) == 1, ends, np.inf).argmin())

    problem = MappingProblem.from_matrix(np.random.default_rng(2).uniform(1, 100, (30, 4)))
    policy = sil.from_policy(shortest_first, environment="sil/Mapping-v0", window=30)
    assert policy.schedule(problem).makespan_s == pytest.approx(MinMin().schedule(problem).makespan_s)


def test_a_policy_runs_in_an_experiment_beside_other_schedulers() -> None:
    mine = sil.from_policy(mct, environment="sil/Mapping-v0")
    experiment = sil.Experiment.builtin("light-to-heavy").with_(replications=2, grid={"workload.jobs": [20]})
    results = experiment.run({"mct": "mct", "mine": mine}, progress=False)
    assert not results.faults
    assert set(results.schedulers) == {"mct", "mine"}


def test_environments_at_once_are_those_that_run_alone() -> None:
    envs = gymnasium.make_vec("sil/Mapping-v0", num_envs=3, jobs=6, machines=2)
    seen, _ = envs.reset(seed=5)
    for k in range(3):
        alone, _ = Mapping(jobs=6, machines=2).reset(seed=5 + k)
        assert all((seen[name][k] == alone[name]).all() for name in seen)
    for _ in range(6):
        *_, over, _, _ = envs.step(np.zeros(3, np.int64))
    assert over.all()
    _, rewards, over, _, infos = envs.step(np.zeros(3, np.int64))
    assert not over.any()
    assert rewards.tolist() == [0.0, 0.0, 0.0]
    assert infos["job"].tolist() == [-1, -1, -1]


def test_matrices_may_be_several_or_made_by_a_function_and_a_reward_a_function() -> None:
    def made(rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(1, 2, (4, 3))

    def paid(steps: Placed) -> np.ndarray:
        return steps.completed_s

    env = Mapping(etc=made, reward=paid)
    assert env.reset(seed=1)[0]["jobs"].shape == (16, 3)
    assert env.step(0)[1] > 0.0
    several = Mapping(etc=[SMALL, SMALL[:2]])
    lengths = {sum(1 for _ in played(several, mct, seed=seed)) - 1 for seed in range(10)}
    assert lengths == {2, 3}


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"etc": [[1.0, -1.0]]}, "etc is no ETC matrix"),
        ({"etc": [[1.0, 2.0], [np.inf, np.inf]]}, "job 1 of an ETC matrix can run nowhere"),
        ({"reward": "speed"}, "reward is 'speed'; expected one of turnaround_time, makespan"),
        ({"machines": 0}, "machines is 0; expected a whole number from 1 on"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_a_sentence(
    settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(sil.UserError, match=sentence):
        gymnasium.make("sil/Mapping-v0", **settings)
