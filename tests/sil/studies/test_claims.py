"""The rules of claims, on results made up for them: what a strict reader objected to stays refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import product
from math import inf

import numpy as np
import polars as pl
import pytest

from scheduler.time_shared.social_contract import MAX_CPU
from sil.outcome.statistics import Sample
from sil.studies.cisne import claims as cisne
from sil.studies.cisne import experiments
from sil.studies.cisne.experiments import AWARE, BLIND, LOADS, METHODS, WITH_MIXED, Deviations
from sil.studies.collins_george import cs1, cs3, cs4
from sil.studies.collins_george.site_runs import OVERALL
from sil.studies.ledger import Claim
from sil.studies.rules import (
    DECIDED,
    Estimate,
    Judge,
    Verdict,
    all_or_partly_positive,
    all_positive,
    exactly,
    most_positive,
    some_positive,
    together,
)

NOISE = np.array([-0.01, 0.0, 0.01])
"""Three replications that hardly differ."""


def about(claims: Iterable[Claim], words: str) -> Claim:
    (found,) = [claim for claim in claims if words in claim.claim]
    return found


# -- many intervals, one verdict ---------------------------------------------------------------------------

TRIALS = 300
NOMINAL = 0.05


def simulated(judge: Judge, means: list[float], correlation: float) -> dict[Verdict, float]:
    """How often a rule has each verdict on 20 seeds of cases with these true means."""
    rng = np.random.default_rng(6)
    shape = (TRIALS, 20, len(means))
    noise = np.sqrt(1 - correlation) * rng.standard_normal(shape)
    noise += np.sqrt(correlation) * rng.standard_normal((TRIALS, 20, 1))
    found = Counter(judge([Estimate(x) for x in trial.T], "").verdict for trial in noise + np.array(means))
    return {verdict: found[verdict] / TRIALS for verdict in Verdict}


@pytest.mark.parametrize("correlation", [0.0, 0.5])
@pytest.mark.parametrize("n", [3, 12, pytest.param(45, marks=pytest.mark.long)])
def test_rules_on_many_cases_without_an_effect_are_wrong_no_more_often_than_one_interval(
    n: int, correlation: float
) -> None:
    null = [0.0] * n
    assert simulated(some_positive, null, correlation)[Verdict.HOLDS] <= NOMINAL
    assert simulated(all_positive, null, correlation)[Verdict.DOES_NOT_HOLD] <= NOMINAL
    for judge in (most_positive, all_or_partly_positive):
        share = simulated(judge, null, correlation)
        assert max(share[verdict] for verdict in DECIDED) <= NOMINAL


def test_most_is_not_reached_by_chance_where_one_case_is_missing() -> None:
    assert simulated(most_positive, [10.0] * 7 + [0.0] * 5, 0.0)[Verdict.HOLDS] <= NOMINAL
    assert simulated(most_positive, [-10.0] * 4 + [0.0] * 8, 0.0)[Verdict.DOES_NOT_HOLD] <= NOMINAL


def test_a_clear_effect_is_still_found_among_many_cases() -> None:
    assert simulated(some_positive, [2.0] + [0.0] * 19, 0.0)[Verdict.HOLDS] > 0.95
    assert simulated(all_positive, [-2.0] + [2.0] * 19, 0.0)[Verdict.DOES_NOT_HOLD] > 0.95


def test_parts_with_different_units_are_judged_as_one_rule() -> None:
    noise = np.array([-1.0, 0.0, 1.0] * 7)
    barely = Estimate(noise - 0.45)  # by itself, significantly negative
    assert all_positive([barely]).verdict is Verdict.DOES_NOT_HOLD
    assert together({"s": [barely], "jobs": [Estimate(noise + 9)] * 9}).verdict is Verdict.INCONCLUSIVE


def test_replications_without_any_difference_decide_nothing() -> None:
    for same in (0.0, 1.0):
        assert all_positive([Estimate(np.full(20, same))]).verdict is Verdict.INCONCLUSIVE
    assert all_positive([Estimate(np.array([0.0] * 18 + [5.0, 7.0]))]).verdict is Verdict.INCONCLUSIVE
    assert all_positive([exactly(0.0)]).verdict is Verdict.DOES_NOT_HOLD


# -- Collins and George ------------------------------------------------------------------------------------


def decision_times(per_machine: float, per_share: float = 0.0) -> cs1.Times:
    """SJS takes n m^per_machine ms; PJS twice that of SJS, and more by `per_share` for each share."""
    sjs = [
        (n, m, k, n ** (1 + x / 10) * m ** (per_machine + x / 10))
        for n, m, (k, x) in product(cs1.GRID, cs1.GRID, enumerate(NOISE))
    ]
    pjs = [
        (n, share, k, share, n * (1 if share == 0 else 2.2 + per_share * share) * (1 + x * (1 + share / 100)))
        for n, share, (k, x) in product(cs1.PJS_JOBS, cs1.SHARES, enumerate(NOISE))
    ]
    columns = ["jobs", "machines", "replication", cs1.SHIPPED]
    return (
        pl.DataFrame(sjs, schema=columns, orient="row"),
        pl.DataFrame(pjs, schema=["jobs", "share", "replication", "in_parallel", cs1.SHIPPED], orient="row"),
    )


def test_a_time_that_hardly_changes_with_the_machines_does_not_grow_with_them() -> None:
    hardly, surely = (
        about(cs1._claims(decision_times(exponent)), "overhead of SJS grows with both")
        for exponent in (0.03, 0.5)
    )
    assert hardly.verdict is Verdict.DOES_NOT_HOLD
    assert surely.verdict is Verdict.HOLDS


def test_ratios_that_differ_by_a_third_are_no_equal_ratios() -> None:
    alike, between, apart = (
        about(cs1._claims(decision_times(1.0, per_share)), "has no significant effect")
        for per_share in (0.0, 0.004, 0.02)
    )
    assert alike.verdict is Verdict.HOLDS
    assert between.verdict is Verdict.INCONCLUSIVE, "no sentence says whether a sixth is significant"
    assert apart.verdict is Verdict.DOES_NOT_HOLD


def test_seconds_of_another_computer_are_not_tested() -> None:
    claims = cs1._claims(decision_times(0.5))
    assert {about(claims, words).verdict for words in ("modest: below 0.2", "1,000 jobs")} == {
        Verdict.NOT_TESTABLE
    }


def test_two_to_three_times_longer_is_also_read_as_three_to_four() -> None:
    assert "3 to 4 times as long" in about(cs1._claims(decision_times(0.5)), "two to three times").beside


def levels(converged: int) -> cs3.Frames:
    """PJS is better for high jobs, by 10 % up to some number of them."""
    jobs = list(range(1, 51))
    change = {level: [1.0] * len(jobs) for level in cs3.LEVELS}
    change["high"] = [-10.0 if n < converged else -1.0 for n in jobs]
    return {
        (d, level): pl.DataFrame({"jobs": jobs, "change": change[level]})
        for d, level in product(cs3.WITH_LEVELS, cs3.LEVELS)
    }


def test_forty_is_not_about_thirty() -> None:
    at = {n: about(cs3.claims_about_levels(levels(n)), "converge after about 30") for n in (33, 40)}
    assert at[33].verdict is Verdict.CALIBRATION, "the curve is that of the second case study"
    assert at[40].verdict is Verdict.DOES_NOT_HOLD
    assert at[40].judged.distance == "-5 jobs"


def job_times(high_s: float, penalty: float) -> Callable[..., Sample]:
    """Of high jobs, and of all relative to those without priority, at all rates."""

    def time_s(distribution: str, level: str, rate: int) -> Sample:
        of = {"high": high_s, "medium": 2 * high_s, "low": 3 * high_s, OVERALL: 100.0 + rate}[level]
        return (of * (1.0 if level != OVERALL or distribution == "none" else 1 + penalty)) + NOISE

    return time_s


def test_half_more_is_not_slightly_over() -> None:
    at = {
        s: about(cs4.claims_about_high_jobs(job_times(s, 0.05)), "slightly over 100 s")
        for s in (104.0, 155.0, 95.0)
    }
    assert {s: claim.verdict for s, claim in at.items()} == {
        104.0: Verdict.HOLDS,
        155.0: Verdict.DOES_NOT_HOLD,
        95.0: Verdict.DOES_NOT_HOLD,
    }


def test_a_third_more_is_not_a_little() -> None:
    at = {
        penalty: about(cs4.claims_about_rates(job_times(100.0, penalty)), "generally costs a little")
        for penalty in (0.05, 0.35, -0.05)
    }
    assert {penalty: claim.verdict for penalty, claim in at.items()} == {
        0.05: Verdict.HOLDS,
        0.35: Verdict.DOES_NOT_HOLD,
        -0.05: Verdict.DOES_NOT_HOLD,
    }


def test_what_is_illegible_in_the_paper_is_not_tested() -> None:
    claims = cs4.claims_about_parallelism(lambda d, level, rate: 80.0 / rate + NOISE)
    assert about(claims, "those of Table 1").verdict is Verdict.NOT_TESTABLE
    assert not any(
        "16 %" in text for claim in claims for text in (claim.statement.paper, claim.statement.rule)
    )


# -- CISNE -------------------------------------------------------------------------------------------------


def deviations(of: Callable[[str, float, str, str], float]) -> Deviations:
    """By policy, load, name of the method and predictor, in percent; everything else is constant."""
    cells = product(WITH_MIXED, LOADS, METHODS.items(), (BLIND, AWARE), experiments.MOMENTS, enumerate(NOISE))
    return Deviations(
        pl.DataFrame(
            {
                "policy": policy,
                "load": load,
                "mode": mode,
                "when": when,
                "replication": k,
                "remaining": pair[0],
                "cpu_time": pair[1],
                "deviation": of(policy, load, name, mode) + x * (1 + 0.001 * number),
                "bias": x,
                "over": 50.0 + x,
                "cost_ms": 0.2 + x,
                "backfilled": x,
                "turnaround_s": 500.0 + x,
                "waiting_s": 100.0 + x,
            }
            for number, (policy, load, (name, pair), mode, when, (k, x)) in enumerate(cells)
        )
    )


def test_eight_of_fifteen_cells_are_not_most() -> None:
    def better_in(n_cells: int) -> Claim:
        better = set(cisne.CELLS[:n_cells])
        found = deviations(
            lambda policy, load, name, mode: (
                20.0 + (1.0 if (name == "MPL") == ((policy, load) in better) else 0.0)
            )
        )
        return about(cisne.claims_on_table_1({MAX_CPU: found}), "more accurate than MPL-MPL in most")

    assert better_in(8).verdict is Verdict.DOES_NOT_HOLD
    assert better_in(10).verdict is Verdict.HOLDS


def test_what_is_so_at_every_load_is_no_exception_at_one() -> None:
    def exception(worse_at: tuple[float, ...]) -> Claim:
        found = deviations(
            lambda policy, load, name, mode: 20.0 + (1.0 if (name == "CPU") == (load in worse_at) else 0.0)
        )
        return about(cisne.claims_on_table_1({MAX_CPU: found}), "exception is Normal with local load on all")

    assert exception((1.0,)).verdict is Verdict.HOLDS
    assert exception(LOADS).verdict is Verdict.DOES_NOT_HOLD


def test_the_verdicts_of_both_predictors_and_of_other_limits_stand_side_by_side() -> None:
    found = deviations(
        lambda policy, load, name, mode: (
            30.0 if "BF" in policy and (mode == BLIND or load > LOADS[0]) else 20.0
        )
    )
    claims = cisne.claims_on_table_1({MAX_CPU: found, inf: found})
    central = about(claims, "keep the FCFS order are more predictable")
    assert central.judged.verdict is Verdict.HOLDS
    assert central.inputs[AWARE].verdict is Verdict.PARTLY, "in 8 of 12 cells"
    assert central.inputs["no limit"].verdict is Verdict.HOLDS
    assert central.verdict is Verdict.DEPENDS_ON_INPUT
    with_limits = [claim for claim in claims if "no limit" in claim.inputs]
    assert len(with_limits) == 16, "all on predictions but that on Basic, on whose nodes no limit is reached"
    assert about(claims, "reach an accuracy of 12 %") in with_limits
    assert AWARE in about(claims, "those of Table 1").inputs
