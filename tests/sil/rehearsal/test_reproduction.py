"""Whether a replay reproduces a month, and what differs under a variant."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from sil.outcome.statistics import Interval
from sil.rehearsal.effects import MeanDifference, differing, effects, most_changed
from sil.rehearsal.month import COLUMNS
from sil.rehearsal.reproduction import Reproduction, reproduction
from sil.rehearsal.run import present, variants
from sil.rehearsal.uses import Measure, Use
from sil.settings.alternatives import expanded

N = 400
HOUR_S = 3_600.0


def recorded(waits_s: Sequence[float]) -> pl.DataFrame:
    """One job each hour, of two users and partitions."""
    rows = [
        (
            k,
            HOUR_S * k + wait_s,
            HOUR_S * k + wait_s + 600.0,
            HOUR_S * k,
            1 + k % 4,
            str(k),
            ("main", "long")[k % 2],
            "a",
            "q",
            ("ann", "bob")[k % 2],
            True,
            False,
        )
        for k, wait_s in enumerate(waits_s)
    ]
    return pl.DataFrame(rows, COLUMNS, orient="row")


def replayed(waits_s: Sequence[float]) -> pl.DataFrame:
    """As jobs.csv."""
    submitted_s = HOUR_S * np.arange(len(waits_s))
    waits = np.asarray(waits_s, float)
    return pl.DataFrame(
        {
            "job_id": np.arange(len(waits)),
            "submission_time": submitted_s,
            "starting_time": submitted_s + waits,
            "finish_time": submitted_s + waits + 600.0,
            "waiting_time": waits,
            "bounded_slowdown": 1.0 + waits / 600.0,
        }
    )


def of(recorded_s: Sequence[float], replayed_s: Sequence[float]) -> Reproduction:
    causes = {"had a dependency": frozenset({0, 1})}
    return reproduction(recorded(recorded_s), replayed(replayed_s), causes, (), processors=4)


@pytest.mark.parametrize(
    ("replayed_s", "use"),
    [
        ([HOUR_S] * N, Use.JOBS),
        ([HOUR_S + 299.0] * N, Use.JOBS),
        ([HOUR_S] * (N - 80) + [HOUR_S + 400.0] * 80, Use.MEANS),
        ([HOUR_S + 301.0] * N, Use.NONE),
        ([HOUR_S] * (N - 4) + [1e6] * 4, Use.NONE),
        ([HOUR_S] * (N - 300), Use.NONE),
    ],
    ids=["equal", "4 min 59 s later", "a fifth is late", "all are late", "another mean", "most never start"],
)
def test_the_verdict_needs_starts_that_are_near_and_a_mean_that_agrees(
    replayed_s: list[float], use: Use
) -> None:
    assert of([HOUR_S] * N, replayed_s).use is use


def test_jobs_that_never_wait_do_not_prove_that_those_that_wait_are_reproduced() -> None:
    """97.5 % of starts are near, and the mean agrees, but not one job that waited starts when it did."""
    found = of([0.0] * (N - 10) + [HOUR_S] * 10, [0.0] * (N - 10) + [0.0, 2 * HOUR_S] * 5)
    assert found.all.near.mean == 0.975
    assert found.all.recorded_s == found.all.replayed_s
    assert found.use is Use.NONE


def test_shares_and_rank_correlations_have_intervals_as_wide_as_they_scatter() -> None:
    """Jobs of a day are alike, so that the intervals of independent jobs would be too narrow."""
    rng, found = np.random.default_rng(1), list[tuple[Interval, Interval]]()
    for _ in range(40):
        of_days = rng.normal(0.0, 1.0, (2, N // 24 + 1)).repeat(24, axis=1)[:, :N]
        waits = HOUR_S * np.exp(of_days[0] + rng.normal(0.0, 1.0, N))
        made = of(waits.tolist(), (waits * np.exp(0.2 * of_days[1])).tolist())
        ranks = made.agreements[Measure.RANKS].found
        assert ranks is not None
        expected = spearmanr(made.waiting_jobs["recorded_s"], made.waiting_jobs["replayed_s"]).statistic
        assert ranks.mean == pytest.approx(expected)
        found.append((made.all.near, ranks))
    for intervals in zip(*found, strict=True):
        scatter = 1.96 * np.std([each.mean for each in intervals])
        widths = [each.half_width for each in intervals if each.half_width is not None]
        assert scatter == pytest.approx(np.mean(widths), rel=0.3)


def test_jobs_that_did_not_start_are_not_near_and_causes_are_counted_apart() -> None:
    found = of([10.0] * N, [10.0] * (N - 100))
    assert (found.not_started, found.all.near.mean) == (100, 0.75)
    (cause, about), (_, others) = found.explained()
    assert (cause, about.jobs, about.near.mean) == ("had a dependency", 2, 1.0)
    assert others.jobs == N - 2
    kinds = {group.kind for group in found.groups()}
    assert kinds == {"partition", "size", "week"}, "groups of which there is one say nothing"


def found(
    variant_s: Sequence[float], again_s: Sequence[float] | None = None
) -> dict[tuple[str, str], MeanDifference]:
    before_s = [HOUR_S] * N
    jobs = of(before_s, before_s).jobs
    tables = (replayed(before_s), replayed(before_s if again_s is None else again_s), replayed(variant_s))
    return {(e.kind, e.name): e for e in effects(jobs, *tables) if e.quantity == "waiting_time"}


def test_equal_replays_have_no_effect() -> None:
    assert not any(effect.exceeds_scatter for effect in found([HOUR_S] * N).values())


def test_users_who_lose_are_found_where_the_mean_of_all_stays() -> None:
    noise = np.random.default_rng(1).normal(0.0, 100.0, N)
    waits = [HOUR_S + (900.0 if k % 2 else -900.0) + noise[k] for k in range(N)]
    effects_ = found(waits)
    assert not effects_["all", "all"].exceeds_scatter
    for user, is_worse in (("ann", False), ("bob", True)):
        assert effects_["user", user].is_settled
        assert effects_["user", user].is_worse is is_worse


def test_what_two_runs_of_the_same_differ_by_is_no_effect() -> None:
    noise = np.random.default_rng(2).normal(600.0, 100.0, N)
    waits = np.full(N, HOUR_S) + noise
    assert not found(waits.tolist(), waits.tolist())["all", "all"].exceeds_scatter
    assert found(waits.tolist())["all", "all"].is_settled


def test_one_job_that_waits_very_long_changes_this_month_and_not_others() -> None:
    effect = found([HOUR_S] * (N - 1) + [1_000 * HOUR_S])["all", "all"]
    assert effect.is_worse
    assert not effect.is_settled


def test_the_jobs_that_change_most_come_first_unless_they_change_by_themselves() -> None:
    before, again, after = ([HOUR_S] * N for _ in range(3))
    after[3], after[5], again[7], after[7] = 9 * HOUR_S, 0.0, 3 * HOUR_S, 2 * HOUR_S
    jobs = of(before, before).jobs
    changed = most_changed(jobs, replayed(before), replayed(again), replayed(after))
    assert changed["log_id"].to_list() == ["3", "5"]


def test_values_that_releases_write_in_other_words_do_not_differ() -> None:
    before = {"TrackWCKey": "No", "TopologyPlugin": "topology/none", "MpiDefault": "none", "Gone": "(null)"}
    after = {"TrackWCKey": "no", "TopologyPlugin": "topology/flat", "MpiDefault": "(null)", "New": "none"}
    assert [*differing(before, after)] == [("TopologyPlugin", "topology/none", "topology/flat")]
    assert [*differing({"MaxMemPerNode": "UNLIMITED"}, {})] == [("MaxMemPerNode", "UNLIMITED", "")]


def test_values_in_braces_are_all_combinations_and_the_present_settings_no_variant(tmp_path: Path) -> None:
    assert expanded("A=b={1,2},c={x,y}") == ["A=b=1,c=x", "A=b=1,c=y", "A=b=2,c=x", "A=b=2,c=y"]
    conf = tmp_path / "slurm.conf"
    names = variants(conf, [conf], [], ["A=1", "B={2,3}"])
    assert names == [f"slurm: {conf} (A=1 B=2)", f"slurm: {conf} (A=1 B=3)"]
    assert variants(conf, [conf], [], []) == []
    assert present(conf) == f"slurm: {conf}"
