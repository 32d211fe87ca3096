"""The example learns a policy with evolution strategies, and compares it on held-out weeks."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sil
from sil.gym import example
from sil.workload.slices import WEEK_S, weeks_of

LOG = sil.lublin_feitelson(2_500, processors=64, load=0.1, seed=2)


def test_the_weeks_of_a_log_are_its_whole_weeks() -> None:
    weeks = weeks_of(LOG)
    first_s = LOG.jobs["submit_s"][0]
    for k, week in enumerate(weeks):
        submit_s = week.jobs["submit_s"]
        assert first_s + k * WEEK_S <= submit_s.min()
        assert submit_s.max() < first_s + (k + 1) * WEEK_S
    within = LOG.jobs.filter(LOG.jobs["submit_s"] < first_s + len(weeks) * WEEK_S)
    assert sum(map(len, weeks)) == len(within)


def test_training_depends_only_on_the_log_and_the_seed() -> None:
    weights = [example.train(LOG, 1, seed=seed) for seed in (1, 1, 2)]
    assert weights[0].tolist() == weights[1].tolist()
    assert weights[0].tolist() != weights[2].tolist()
    assert np.abs(weights[0]).max() > 0.0


def test_weights_of_zero_start_the_first_job_that_fits() -> None:
    env = example.gymnasium.make("sil/Backfill-v0", log=LOG, window=example.WINDOW)
    seen, _ = env.reset(seed=1)
    choose = example.policy(np.zeros(example.N_WEIGHTS))
    for _ in range(100):
        action = choose(seen)
        assert action == seen["action_mask"].argmax()
        seen, *_ = env.step(action)


def test_training_sees_no_job_of_the_held_out_weeks() -> None:
    env = example.gymnasium.make("sil/Backfill-v0", log=LOG, jobs=512, held_out=example.HELD_OUT)
    first = example.held_out_weeks(LOG)[0].jobs["job"][0]
    ends = [env.reset(seed=seed)[1]["end"] for seed in range(200)]
    assert max(ends) < first


def test_a_log_without_two_weeks_to_hold_out_is_refused() -> None:
    with pytest.raises(sil.UserError, match="expected 2 whole weeks or more"):
        example.held_out_weeks(LOG[:100])


@pytest.mark.usefixtures("in_this_process")
def test_the_policy_is_compared_on_each_held_out_week() -> None:
    weeks = example.held_out_weeks(LOG)
    sweep = example.compared(weeks, np.zeros(example.N_WEIGHTS))
    assert not sweep.faults
    assert sum(map(len, weeks)) > 600
    assert sweep.table.group_by("scheduler").len()["len"].to_list() == [len(weeks)] * 4
    summary = sweep.summary()
    assert summary["scheduler"].to_list() == ["easy", "fcfs", "sjf", "policy"]
    assert summary["half_width"].null_count() == 0


def test_a_log_that_cannot_be_read_is_reported_in_a_sentence() -> None:
    command = [sys.executable, "-m", "sil.gym.example", "nowhere.swf"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "nowhere.swf" in ended.stderr
    assert "Traceback" not in ended.stderr
