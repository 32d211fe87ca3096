"""Forecasts of batch jobs: known answers, exact states, seeds, and how many intervals come true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bench_forecasts import scores
from benchmarks.past_waits import PastWaits, predicted_waits
from scheduler import UserError
from sil.api.logs import read_log
from sil.cli.app import app
from sil.forecast.experience import LEAST, RunTimes, drawn_arrivals
from sil.forecast.forward import KnownJobs, Present
from sil.forecast.questions import HypotheticalJob, forecasts, past_forecasts, waits_ahead, with_submission
from sil.site.logs import write_log
from sil.workload.slices import DAY_S, WEEK_S
from tests.examples import up_to
from tests.oracles import oracle
from tests.sil.forecast.simulated import log_of, replayed, simulated_site

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")


def test_where_run_times_are_the_limits_the_interval_is_the_plan_of_easy() -> None:
    """A run of 4 processors until 100 s; the next whole machine from then to 150 s; then one of 2."""
    log = log_of((0, 100, 4, 100), (10, 50, 4, 50), (20, 30, 2, 30))
    first, second, third = forecasts(present := Present.of(replayed(log), 20.0), present.sampled(10, 1))
    assert first.start is None
    assert set(first.end) == {80.0}
    assert second.start is not None
    assert third.start is not None
    assert set(second.start) == {80.0}
    assert second.planned_start_s == 80.0
    assert set(third.start) == {130.0}
    assert set(third.end) == {160.0}
    assert third.planned_start_s == 130.0


def test_a_run_takes_one_of_the_times_of_the_users_jobs_that_took_longer_than_it_has() -> None:
    """Ten jobs took 10 to 100 s of 100 s; one has run for 75 s."""
    past = [(200.0 * k, 10.0 * (k + 1), 4, 100.0) for k in range(10)] * 3
    log = log_of(*sorted(past), (9_000, 100, 4, 100), processors=12)
    (one,) = forecasts(present := Present.of(replayed(log), 9_075.0), present.sampled(400, 1))
    ends = np.unique(present.sampled(400, 1).end_s - 9_000.0)
    assert ends.tolist() == [80.0, 90.0, 100.0]
    assert (one.end.low_s, one.end.high_s) == (5.0, 25.0)


def test_a_run_longer_than_any_before_goes_on_up_to_its_limit() -> None:
    log = log_of(*((200.0 * k, 10.0, 1, 100.0) for k in range(LEAST)), (9_000, 90, 1, 100))
    (one,) = forecasts(present := Present.of(replayed(log), 9_050.0), present.sampled(10, 1))
    assert set(one.end) == {50.0}


JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 4), st.integers(0, 30)),
    min_size=1,
    max_size=12,
)


@given(JOBS, st.sampled_from(["fcfs", "easy", "easy_sjbf", "sjf"]), st.integers(0, 30))
@settings(max_examples=up_to(200))
def test_run_forward_with_the_true_run_times_the_present_is_the_replay(
    jobs: list[tuple[int, int, int, int]], scheduler: str, later_s: int
) -> None:
    rows = sorted((at, run_s, size, run_s + more_s) for at, run_s, size, more_s in jobs)
    run = replayed(log_of(*((float(a), float(b), c, float(d)) for a, b, c, d in rows)), scheduler)
    present = Present.of(run, float(rows[-1][0] + later_s))
    nothing = np.zeros(0)
    true_s = run.policy.log.jobs["run_s"].to_numpy()[present.open]
    starts_s = present._times(true_s, nothing.astype(np.int64), nothing, 0)[0]
    assert starts_s.tolist() == run.start_s[present.open].tolist()


@given(JOBS, st.integers(0, 60))
@settings(max_examples=up_to(200))
def test_run_times_are_longer_than_the_job_has_run_and_within_its_limit(
    jobs: list[tuple[int, int, int, int]], now_s: int
) -> None:
    rows = sorted((at, run_s, size, run_s + more_s) for at, run_s, size, more_s in jobs)
    run = replayed(log_of(*((float(a), float(b), c, float(d)) for a, b, c, d in rows)))
    present = Present.of(run, float(now_s))
    known = RunTimes(present.jobs, present.ended)
    for job, began_s in zip(present.running.tolist(), present.began_s.tolist(), strict=True):
        times_s = known.of(job, now_s - began_s)
        assert len(times_s)
        assert (times_s > now_s - began_s).all()
        assert (times_s <= present.jobs["estimate_s"][job]).all()


def test_arrivals_are_those_of_the_same_hour_and_weekday_of_earlier_weeks() -> None:
    """One job each Monday at 9 o'clock, over four weeks; now it is the fifth Monday, 8 o'clock."""
    at_nine = 9 * 3_600.0
    submit_s = np.array([0.0, *(at_nine + week * WEEK_S for week in range(4))])
    again, times = drawn_arrivals(submit_s, 4 * WEEK_S + 8 * 3_600.0, np.random.default_rng(1))
    assert times.tolist() == [4 * WEEK_S + at_nine, 5 * WEEK_S + at_nine]
    assert (again > 0).all()
    _, times = drawn_arrivals(submit_s[:2], 3 * DAY_S, np.random.default_rng(1))
    once, again_s = WEEK_S + at_nine, 2 * WEEK_S + at_nine
    assert times.tolist() == [once, again_s], "before that, nothing is known of these weekdays"


def test_equal_seeds_give_equal_samples_and_others_do_not() -> None:
    log = simulated_site(400, 3)
    present = Present.of(replayed(log), float(log.jobs["submit_s"][300]))
    one, same, other = (present.sampled(20, seed) for seed in (1, 1, 2))
    assert (one.start_s == same.start_s).all()
    assert (one.end_s == same.end_s).all()
    assert (one.end_s != other.end_s).any()


def test_half_of_a_job_has_as_many_cpus_on_each_node() -> None:
    for asked, expected in (((3, 24), (1, 8)), ((1, 4), (1, 2)), ((1, 1), (1, 1))):
        found = [*HypotheticalJob(*asked, 600.0).variants()]
        assert found[:2] == [*dict.fromkeys([(*asked, 600.0), (*expected, 600.0)]), (*asked, 300.0)][:2]


def test_a_submitted_job_does_not_change_what_else_is_drawn() -> None:
    log = simulated_site(400, 3)
    present = Present.of(replayed(log), float(log.jobs["submit_s"][300]))
    with_it = with_submission(present, HypotheticalJob(1, 2, 600.0), None, "")
    runs = [each.end_s - each.start_s for each in (with_it.sampled(20, 1), present.sampled(20, 1))]
    assert (runs[0][:, :-1] == runs[1]).all()


def test_waits_ahead_are_those_of_the_jobs_within_the_horizon() -> None:
    """A job of the whole machine, each day at the same second for 10 days: none waits."""
    log = log_of(*((day * DAY_S, 100.0, 4, 100.0) for day in range(10)))
    present = Present.of(replayed(log), 9.5 * DAY_S)
    found = waits_ahead(present, present.sampled(10, 1, 3 * DAY_S))["all"]
    assert set(found["jobs"]) == {3.0}
    assert set(found["mean wait"]) == {0.0}
    assert set(found["start at once (%)"]) == {100.0}


def test_the_largest_of_29_waits_bounds_nine_tenths_of_waits_with_95_percent_confidence() -> None:
    """0.9^29 < 0.05 <= 0.9^28."""
    past = PastWaits(0.1, 0.9)
    for n in range(28):
        past.add(float(n))
    assert past.predicted() is None
    past.add(1_000.0)
    found = past.predicted()
    assert found is not None
    assert (found.high_s, found.median_s) == (1_000.0, 14.0)


def test_three_waits_in_succession_above_the_bound_shorten_what_is_remembered() -> None:
    past = PastWaits(0.1, 0.9)
    for n in range(100):
        past.add(float(n % 10))
    for _ in range(3):
        past.add(5_000.0)
    assert len(past.waits_s) == 29


def test_a_wait_is_known_when_the_job_has_started() -> None:
    """The 29th job starts with the 31st submission: only then is there a bound."""
    submit_s, start_s = np.arange(31.0), np.arange(31.0) + 1.0
    start_s[28:30] = 30.0
    found = list(predicted_waits(submit_s, start_s, np.ones(31, np.int64), (0.1, 0.9)))
    assert [each.high_s for each in found[:30]] == [0.0] * 30
    assert found[30].high_s == 2.0


def of_methods(run: KnownJobs, n: int, samples: int) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["method"], each["of"]): each for each in scores(run, list(past_forecasts(run, n, samples, 1)))
    }


def test_four_in_five_intervals_come_true_at_a_simulated_site() -> None:
    of = of_methods(replayed(simulated_site(3_000, 7)), 120, 20)
    assert 0.7 <= of["forecast", "start"]["coverage"] <= 0.9
    assert of["forecast", "start"]["error_s"] < of["plan", "start"]["error_s"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["KTH-SP2", "CTC-SP2"])
def test_four_in_five_intervals_come_true_on_a_log(name: str) -> None:
    of = of_methods(replayed(read_log(oracle(f"swf/{name}.swf.gz"))), 500, 100)
    assert 0.76 <= of["calibrated", "start"]["coverage"] <= 0.84
    assert 0.76 <= of["calibrated", "end"]["coverage"] <= 0.84
    assert of["forecast", "start"]["error_s"] < of["plan", "start"]["error_s"]


def test_forecasts_of_more_jobs_than_waited_are_refused() -> None:
    with pytest.raises(UserError, match="0 jobs of its last three quarters waited; expected 5"):
        next(past_forecasts(replayed(log_of((0, 1, 1, 1), (10, 1, 1, 1))), 5, 10, 1))


@pytest.fixture
def here(here: Path) -> Path:
    write_log(here / "site.swf", simulated_site(2_000, 1))
    return here


def predict(*arguments: str, file: str = "site.swf") -> Result:
    return CliRunner().invoke(app, ["predict", file, *arguments])


def answers(*arguments: str) -> dict[str, Any]:
    result = predict("--json", "--samples", "20", *arguments)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refusal(*arguments: str, file: str = "site.swf") -> str:
    result = predict(*arguments, file=file)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_the_command_forecasts_all_jobs_that_run_or_wait_and_one_of_them_alike(here: Path) -> None:
    found = answers("--at", "20d", "--horizon", "2d")
    jobs = found["jobs"]
    assert [one["start"] is None for one in jobs] == sorted(one["start"] is None for one in jobs)[::-1]
    one = jobs[-1]
    assert answers("--at", "20d", "--job", str(one["job"]))["jobs"] == [one]
    assert "mean wait" in found["waits"]["all"]
    assert "Basis: " in predict("--at", "20d", "--samples", "20").stdout


def test_the_command_compares_a_submission_with_smaller_and_shorter_ones(here: Path) -> None:
    result = predict("--at", "20d", "--submit", "64/8h", "--user", "3", "--samples", "20", "--json")
    found = json.loads(result.stdout)
    assert [(each["cpus"], each["limit_s"]) for each in found] == [
        (64, 28_800.0),
        (32, 28_800.0),
        (64, 14_400.0),
        (32, 14_400.0),
    ]
    assert "Forecast if submitted now" in predict("--at", "20d", "--submit", "1/8h").stdout


def test_the_command_says_whether_a_deadline_can_be_kept_and_which_jobs_are_delayed(here: Path) -> None:
    """All processors are in use until 100 s, then for 200 s; at 49 s one of 40 s comes, the shortest first,
    to end at 140 s, or half as long."""
    write_log(
        here / "queue.swf", log_of((0.0, 100.0, 4, 100.0), (10.0, 200.0, 4, 200.0), (50.0, 1.0, 4, 1.0))
    )
    asked = ("--at", "49", "--scheduler", "sjf", "--submit", "4/40s", "--by")
    for by, kept in (("92", 1.0), ("1", 0.0)):
        found = json.loads(predict(*asked, by, "--json", file="queue.swf").stdout)
        assert [each["delays_s"] for each in found] == [{"2": 40.0}] * 2 + [{"2": 20.0}] * 2
        assert [each["kept_share"] for each in found] == [kept] * 4
    said = predict(*asked, "92", file="queue.swf").stdout
    assert "Of the first, by the time limits of all jobs: it delays job 2 by 40 s." in said


def test_the_command_scores_forecasts(here: Path) -> None:
    found = answers("--score", "20")
    methods = [(each["method"], each["of"]) for each in found["scores"]]
    assert methods == [(x, of) for of in ("start", "end") for x in ("forecast", "plan")]
    assert "in 80 % interval (%)" in predict("--score", "20", "--samples", "20").stdout


def test_the_command_refuses_what_it_cannot_forecast(here: Path) -> None:
    assert "--by has no effect on a log without --submit" in refusal("--by", "2h")
    assert "is no duration" in refusal("--by", "soon", "--submit", "1/1h")
    assert "there is no such file" in refusal(file="missing.swf")
    assert "expected CPUS/TIME, or NODES/CPUS/TIME" in refusal("--submit", "64")
    assert "expected CPUS/TIME, or NODES/CPUS/TIME" in refusal("--submit", "4/2/1h")
    assert "the machine has 128 processors" in refusal("--submit", "129/1h")
    assert "there is no user 'nobody'" in refusal("--submit", "1/1h", "--user", "nobody")
    assert "job 1 neither runs nor waits then" in refusal("--job", "1")
    assert "'yesterday' is no time" in refusal("--at", "yesterday")
    assert "expected a duration of at most 7d" in refusal("--horizon", "8d")
    (here / "queue.toml").write_text("")
    assert "--at has no effect on queue.toml, which is a queue file" in refusal(
        "--at", "3", file="queue.toml"
    )
    assert "name it with --site" in refusal(file="queue.toml")
