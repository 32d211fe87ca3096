"""`sil/Backfill-v0` is the replay of a log: what a policy sees, does and is paid."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import sil
from benchmarks.plain_backfill import PlainBackfill
from sil.gym import mapping
from sil.gym.backfill import REWARDS, Backfill, Steps
from sil.runs.compiled import names_of
from sil.trace.facts import FACT_SCHEMA
from sil.workload.job_log import JobLog
from sil.world.core.tables import facts_table
from tests.sil.gym.episodes import Seen, easy, fcfs, played, unpredictable
from tests.sil.runs.test_engines import logs

LOG = sil.lublin_feitelson(1_500, processors=64, load=0.9, seed=3)


def whole(log: JobLog, **settings: object) -> Backfill:
    """The environment in which each episode is all of a log."""
    return Backfill(log, jobs=len(log), held_out=0.0, **settings)


OF_LOG = {"log": LOG, "window": 8}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *(("sil/Backfill-v0", {**OF_LOG, "reward": reward}) for reward in REWARDS),
        *(("sil/Mapping-v0", {"reward": reward}) for reward in mapping.REWARDS),
    ],
)
def test_gymnasium_finds_nothing_to_complain_of(name: str, settings: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(name, **settings).unwrapped)


def test_an_episode_in_a_closed_loop_pays_what_its_replay_measures() -> None:
    """Every third job is submitted some seconds after the end of the one before it."""
    numbers = LOG.jobs["job"].to_list()[:300]
    after = {job: (preceding, 60.0) for preceding, job in pairwise(numbers) if job % 3 == 0}
    in_loop, without = replace(LOG[:300], after=after), LOG[:300]
    paid = [
        sum(reward for _, reward, _, _ in played(whole(log, window=300), easy)) for log in (in_loop, without)
    ]
    found = sil.replay(in_loop, "easy", progress=False).metrics["bounded_slowdown_mean"][0]
    assert paid[0] == pytest.approx(-found)
    assert paid[0] != pytest.approx(paid[1])


@pytest.mark.parametrize(("policy", "name"), [(fcfs, "fcfs"), (easy, "easy")])
@pytest.mark.parametrize("reward", REWARDS)
def test_an_episode_under_a_known_policy_pays_what_its_replay_measures(
    policy: Callable[[Seen], int], name: str, reward: str
) -> None:
    paid = sum(reward for _, reward, _, _ in played(whole(LOG, window=500, reward=reward), policy))
    found = sil.replay(LOG, name, progress=False).metrics
    expected = found["utilisation"][0] if reward == "utilisation" else -found[f"{reward}_mean"][0]
    assert paid == pytest.approx(expected, rel=1e-12)


def test_a_policy_sees_and_does_the_same_in_a_replay_as_in_its_environment() -> None:
    policy, seen = unpredictable(5), list[bytes]()

    def watched(observation: Seen) -> int:
        seen.append(b"".join(array.tobytes() for array in observation.values()))
        return policy(observation)

    log = with_short_estimates(LOG)
    steps = list(played(whole(log, window=16), watched))
    in_environment, starts = seen.copy(), {info["job"] for _, _, _, info in steps} - {-1}
    assert starts == {*log.jobs["job"]}
    seen.clear()
    scheduler = sil.from_policy(watched, window=16)
    replays = sil.replay(log, {"policy": scheduler}, determinism_check=False, progress=False)
    assert seen == in_environment
    waited = replays.jobs("policy").sort("job_id")["waiting_time"]
    paid = sum(reward for _, reward, _, _ in played(whole(log, window=16, reward="waiting_time"), policy))
    assert paid == pytest.approx(-waited.mean(), rel=1e-12)


def with_short_estimates(log: JobLog) -> JobLog:
    """Every fifth job runs longer than its user expects."""
    shorter = pl.when(pl.col("job") % 5 == 0).then(1.0 + pl.col("estimate_s") // 9)
    return replace(log, jobs=log.jobs.with_columns(estimate_s=shorter.otherwise(pl.col("estimate_s"))))


@pytest.mark.parametrize("estimates", ["user", "actual", "history"])
def test_the_trace_of_an_episode_is_that_of_the_replay_byte_for_byte(estimates: str) -> None:
    policy, log = unpredictable(7), with_short_estimates(LOG[:150])
    env = whole(log, window=16, estimates=estimates)
    in_environment = facts_of(env, policy, log)
    scheduler = sil.from_policy(policy, window=16)
    trace = sil.replay(log, {"p": scheduler}, estimates=estimates, progress=False).trace("p")
    of_replay = trace.select(in_environment.columns)
    assert in_environment.rows() == of_replay.rows()


def facts_of(env: Backfill, policy: Callable[[Seen], int], log: JobLog) -> pl.DataFrame:
    """From the records of the compiled loop, which are those of the replay's trace."""
    names = names_of(log, log.jobs, {"job_class": "rigid", "queue": "default"}, {})
    replays = env._batch._replays  # type: ignore[attr-defined]
    # The facts are handed over, since the next step would overwrite them.
    tables = [facts_table(replays[0].hand_over(), names, (0, 0, "p")) for _ in played(env, policy)]
    found = pl.concat(tables)
    return found.select(*FACT_SCHEMA)


@given(logs(), st.integers(1, 5), st.integers(0, 2**32))
def test_it_equals_an_environment_in_plain_python(log: JobLog, window: int, seed: int) -> None:
    fitting = log.jobs.filter(pl.col("processors") <= log.processors)
    if fitting.is_empty():
        return
    log = replace(log, jobs=fitting)
    plain, policy = PlainBackfill(log, window), unpredictable(seed)
    expected, reward, is_over = plain.reset(), 0.0, False
    for seen, paid, is_ended, _ in played(whole(log, window=window), policy):
        assert (paid, is_ended) == (reward, is_over)
        assert {name: array.tolist() for name, array in seen.items()} == {
            name: array.tolist() for name, array in expected.items()
        }
        if not is_over:
            expected, reward, is_over = plain.step(policy(expected))


def test_an_excluded_action_waits_or_starts_the_first_job_that_fits_where_all_is_idle() -> None:
    rows = [(1, 0.0, 100.0, 4, 100.0, 1), (2, 0.0, 50.0, 3, 50.0, 1), (3, 10.0, 5.0, 1, 5.0, 1)]
    jobs = pl.DataFrame(rows, schema=LOG.jobs.schema, orient="row")
    env = whole(JobLog("small", jobs, 4), window=2, reward="waiting_time")
    seen, _ = env.reset(seed=1)
    assert seen["action_mask"].tolist() == [1, 1, 0]  # to wait is excluded while the machine is idle
    seen, reward, _, _, info = env.step(2)
    assert (info["job"], info["invalid"], info["time_s"]) == (1, True, 100.0)
    assert reward == 0.0
    assert seen["action_mask"].tolist() == [1, 1, 0]
    seen, reward, _, _, info = env.step(1)  # job 3, which overtakes
    assert (info["job"], info["invalid"], info["time_s"]) == (3, False, 100.0)
    assert reward == -90.0 / 3
    assert seen["action_mask"].tolist() == [1, 0, 1]
    seen, reward, _, _, info = env.step(1)  # an empty row: the same as to wait
    assert (info["job"], info["invalid"], info["time_s"]) == (-1, True, 105.0)
    seen, reward, is_over, _, info = env.step(0)
    assert (info["job"], is_over, reward) == (2, True, -105.0 / 3)
    assert info["time_s"] == 155.0
    assert seen["action_mask"].tolist() == [0, 0, 1]
    with pytest.raises(sil.UserError, match="no episode is under way; call reset"):
        env.step(0)


def test_a_seed_determines_the_episode_and_others_differ() -> None:
    env = Backfill(LOG, jobs=100)
    begins = [env.reset(seed=seed)[1]["begin"] for seed in (1, 2, 3, 1)]
    assert begins[0] == begins[3]
    assert len({*begins}) == 3
    again = [env.reset()[1]["begin"] for _ in range(5)]
    env.reset(seed=1)
    assert [env.reset()[1]["begin"] for _ in range(5)] == again


def test_held_out_jobs_are_in_no_episode_unless_asked_for() -> None:
    env = Backfill(LOG, jobs=100, held_out=0.3)
    first = 1_050
    drawn = [env.reset(seed=seed)[1] for seed in range(300)]
    assert max(info["end"] for info in drawn) <= first
    assert max(info["end"] for info in drawn) > first - 20
    held_out = [env.reset(options={"held_out": True})[1] for _ in range(100)]
    assert min(info["begin"] for info in held_out) >= first
    assert env.reset(options={"begin": 7})[1]["begin"] == 7


def test_a_reward_may_be_a_function_of_steps() -> None:
    seen: list[tuple[bool, float, int]] = []

    def paid(steps: Steps) -> np.ndarray:
        seen.append((bool(steps.started[0]), float(steps.wait_s[0]), int(steps.processors[0])))
        return np.where(steps.started, -steps.wait_s * steps.processors, 0.0)

    env = whole(LOG[:50], reward=paid)
    rewards = [reward for _, reward, _, _ in played(env, fcfs)][1:]
    assert rewards == [-wait_s * size for _, wait_s, size in seen]
    assert sum(started for started, _, _ in seen) == 50


@pytest.mark.parametrize("reward", [lambda steps: 1.0, lambda steps: [1.0, 2.0], lambda steps: None])
def test_a_reward_that_is_no_number_for_each_environment_is_refused(reward: Any) -> None:
    env = Backfill(LOG, jobs=40, reward=reward)
    env.reset(seed=1)
    with pytest.raises(
        sil.UserError, match=r"the reward function returned .*; expected an array with 1 number"
    ):
        env.step(0)


def test_its_environments_at_once_are_those_that_run_alone() -> None:
    envs = gymnasium.make_vec("sil/Backfill-v0", num_envs=5, log=LOG, jobs=40, window=8)
    alone = [gymnasium.make("sil/Backfill-v0", log=LOG, jobs=40, window=8) for _ in range(5)]
    seen, infos = envs.reset(seed=11)
    singles = [env.reset(seed=11 + k) for k, env in enumerate(alone)]
    ended = np.zeros(5, np.bool_)
    n_ended = 0
    for step in range(300):
        for k, single in enumerate(singles):
            assert all((array[k] == single[0][name]).all() for name, array in seen.items())
            assert {name: infos[name][k] for name in single[-1]} == single[-1]
        actions = [unpredictable(step)({name: array[k] for name, array in seen.items()}) for k in range(5)]
        seen, rewards, over, truncated, infos = envs.step(np.array(actions))
        for k, env in enumerate(alone):
            if ended[k]:  # the step after the end begins another episode
                singles[k] = env.reset()
                assert (rewards[k], over[k]) == (0.0, False)
            else:
                singles[k] = env.step(actions[k])
                assert (rewards[k], over[k]) == singles[k][1:3]
        ended = over
        n_ended += int(over.sum())
        assert not truncated.any()
    assert n_ended >= 5
    assert envs.metadata["autoreset_mode"] is gymnasium.vector.AutoresetMode.NEXT_STEP


def test_observations_do_not_change_with_later_steps() -> None:
    env = Backfill(LOG, jobs=40)
    seen, _ = env.reset(seed=1)
    before = {name: array.copy() for name, array in seen.items()}
    env.step(0)
    env.reset(seed=2)
    assert all((array == before[name]).all() for name, array in seen.items())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"log": "KTH"}, "log is 'KTH'; expected a log"),
        ({"window": 0}, "window is 0; expected a whole number from 1 on"),
        ({"jobs": 2.5}, "jobs is 2.5; expected a whole number"),
        ({"jobs": 2_000}, "its training part has 1,200 jobs, and an episode 2,000"),
        ({"jobs": 1_000}, "its held-out part has 300 jobs, and an episode 1,000"),
        ({"held_out": 1.0}, "held_out is 1.0; expected a share of the log"),
        (
            {"reward": "speed"},
            "reward is 'speed'; expected one of bounded_slowdown, waiting_time, utilisation",
        ),
        ({"estimates": "none"}, "estimates is 'none'; expected one of user, actual, history"),
        ({"log": LOG.on(8)}, "processors, but the machine has 8; leave such jobs out"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_a_sentence(
    settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(sil.UserError, match=sentence):
        gymnasium.make("sil/Backfill-v0", **{"log": LOG, **settings})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"held": True}, "option 'held' of reset is unknown"),
        ({"begin": 1_401}, "an episode of 100 jobs cannot begin at job 1401 of 1,500"),
        ({"held_out": True}, "no job is held out"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_a_sentence(
    options: dict[str, object], sentence: str
) -> None:
    with pytest.raises(sil.UserError, match=sentence):
        Backfill(LOG, jobs=100, held_out=0.0).reset(options=options)


@pytest.mark.parametrize("name", ["sil/Backfill-v0", "sil/Mapping-v0"])
def test_a_step_without_an_episode_or_with_too_few_actions_is_refused(name: str) -> None:
    settings = {"log": LOG} if name == "sil/Backfill-v0" else {}
    with pytest.raises(sil.UserError, match="no episode is under way; call reset"):
        gymnasium.make(name, **settings).unwrapped.step(0)
    envs = gymnasium.make_vec(name, num_envs=3, **settings)
    with pytest.raises(sil.UserError, match="no episode is under way; call reset"):
        envs.step(np.zeros(3, np.int64))
    envs.reset(seed=1)
    with pytest.raises(sil.UserError, match="expected one for each of 3 environments"):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(sil.UserError, match="there are 2 seeds for 3 environments; give one for each"):
        envs.reset(seed=[1, 2])
