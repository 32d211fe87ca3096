"""Rankings: when they are settled, and how often they are right."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

from sil.outcome.paired import why_no_interval
from sil.planning.options import AS_IT_IS, Option, one_of_each
from sil.planning.ranking import Criteria, rank_options
from sil.planning.verdicts import JointConfidence, PairVerdict, Standings, looks
from tests.examples import up_to
from tests.sil.planning.fake_runs import noise, plan, samples


def test_half_width_is_students_corrected_for_pairs_and_looks() -> None:
    values = np.array([1.0, 2.0, 4.0, 5.0])
    quantile = stats.t.ppf(1 - 0.05 / (3 * 2) / 2, df=3)
    expected = quantile * np.std(values, ddof=1) / 2
    assert JointConfidence(0.95, pairs=3, looks=2).interval(values).half_width == pytest.approx(expected)


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [
        (5.0, 0.5, PairVerdict.BETTER),
        (-5.0, 0.5, PairVerdict.WORSE),
        (0.1, 0.1, PairVerdict.TIE),
        (0.8, 0.05, PairVerdict.TIE),
        (0.5, 5.0, PairVerdict.UNSETTLED),
    ],
)
def test_verdict_follows_from_interval_and_indifference(
    mean: float, spread: float, verdict: PairVerdict
) -> None:
    gained = mean + spread * np.tile([-1.0, 1.0], 30)
    assert JointConfidence(0.95, 1, 1).verdict(gained, indifference=1.0) is verdict


@pytest.mark.parametrize(
    ("gained", "why"),
    [
        ([0.0] * 400, "no replication of 400 shows a difference"),
        ([0.0] * 399 + [1e-6], "only 1 of 400 replications shows a difference"),
        ([0.0] * 9 + [900.0], "only 1 of 10 replications shows a difference"),
        ([0.0] * 96 + [0.1, 0.2, -0.1, 0.1], "only 4 of 100 replications show a difference"),
        ([0.5] * 400, "all 400 replications show the same difference"),
        ([50.0] * 58, "all 58 replications show the same difference"),
        ([50.0] * 99 + [49.0], "all but 1 of 100 replications show the same difference"),
        ([0.01, -0.01] * 29, ""),
    ],
)
def test_differences_that_say_nothing_of_rare_effects_settle_nothing(gained: list[float], why: str) -> None:
    """Student's t of the first had a half-width of 0: a tie for good."""
    values = np.array(gained)
    assert JointConfidence(0.95, 1, 1).verdict(values, indifference=1.0) is PairVerdict.UNSETTLED
    assert why_no_interval(values) == why
    assert JointConfidence(0.95, 1, 1).verdict(np.full(60, 50.0), indifference=1.0) is PairVerdict.BETTER


@pytest.mark.parametrize(
    ("more", "share"), [(0.3, 0.3), (0.5, 0.1), (1.0, 0.05), (5.0, 0.02)], ids=["30%", "10%", "5%", "2%"]
)
@pytest.mark.parametrize("first", [2, 10])
def test_an_effect_that_is_rare_is_not_taken_for_none(more: float, share: float, first: int) -> None:
    """With ten replications, up to 78 % of such effects were a tie; with two, up to 96 %."""
    of, wrong = plan(first_replications=first, most_replications=400), 0

    def turnaround(option: Option, r: int, seed: int) -> float:
        is_there = np.random.default_rng([seed, r]).random() < share
        return 300.0 * (1.0 + more * is_there * (option.name == "B"))

    for seed in range(races := up_to(50)):
        drawn, _ = samples(of, partial(turnaround, seed=seed))
        found = rank_options(drawn, one_of_each(of)[:2])
        verdicts = {found.standings.between("A", "B"), found.effect("B").against_today}
        wrong += bool(verdicts & {PairVerdict.TIE}) or found.standings.between("A", "B") is PairVerdict.WORSE
        assert found.effect("A").against_today is PairVerdict.UNSETTLED
        assert found.effect("A").gain.half_width is None
        assert found.effect("A").no_interval == "no replication of 400 shows a difference"
    assert wrong <= 0.05 * races


def test_options_of_the_same_changes_are_tied_at_once() -> None:
    of = plan()
    one, other, _ = one_of_each(of)
    drawn, _ = samples(of, lambda o, r: 300.0 + noise(7, r) + (-9.0 + noise(8, r)) * (o.name != "as it is"))
    found = rank_options(drawn, [one, replace(one, name="twin"), other], Criteria(only_first=True))
    assert found.standings.between("A", "twin") is PairVerdict.TIE
    assert found.standings.between("A", "B") is PairVerdict.UNSETTLED, "equal results are no proof"


def test_looks_grow_by_half_up_to_the_maximum() -> None:
    assert looks(10, 60) == (10, 15, 22, 33, 49, 60)
    assert looks(10, 10) == (10,)


def test_a_verdict_is_final_and_antisymmetric() -> None:
    standings = Standings(["a", "b", "c"])
    standings.settle("a", "b", PairVerdict.BETTER)
    standings.settle("a", "b", PairVerdict.TIE)
    standings.settle("c", "a", PairVerdict.TIE)
    assert standings.between("a", "b") is PairVerdict.BETTER
    assert standings.between("b", "a") is PairVerdict.WORSE
    assert standings.unsettled == (("b", "c"),)
    assert standings.rank("b") == (2, 3)
    assert standings.tied_with("a") == ("c",)


EFFECTS = {"A": -30.0, "B": -20.0, "C": -50.0}


def measured(option: Option, replication: int, seed: int = 0) -> float:
    """Turnaround: noise common to all options, and a little of each."""
    own = noise(seed, replication, option.name, 5.0)
    return 300.0 + noise(seed, replication, deviation=60.0) + EFFECTS.get(option.name, 0.0) + own


def test_options_are_ranked_by_gain_or_by_gain_per_price() -> None:
    of = plan()
    drawn, runs = samples(of, measured)
    by_effect = rank_options(drawn, one_of_each(of))
    assert [effect.option.name for effect in by_effect.effects] == ["C", "A", "B"]
    by_price = rank_options(drawn, one_of_each(of), Criteria(by_price=True))
    assert [effect.option.name for effect in by_price.effects] == ["A", "C", "B"]
    assert not by_effect.standings.unsettled
    effect = by_price.effects[0]
    assert effect.gain.low < 30.0 < effect.gain.high
    assert effect.per_price is not None
    assert effect.per_price.mean == pytest.approx(effect.gain.mean / 10.0)
    assert effect.against_today is PairVerdict.BETTER
    assert len(set(runs.done)) == len(runs.done), "no run is repeated"


def test_common_random_numbers_cancel_in_differences() -> None:
    of = plan()
    drawn, _ = samples(
        of, lambda option, r: 300.0 + noise(1, r, deviation=500.0) + EFFECTS.get(option.name, 0.0)
    )
    found = rank_options(drawn, one_of_each(of))
    assert [e.gain.mean for e in found.effects] == pytest.approx([50.0, 30.0, 20.0])
    assert {(e.gain.half_width, e.against_today) for e in found.effects} == {(None, PairVerdict.BETTER)}
    assert found.effects[0].n == 73, "the first look with 59 or more"


def test_settled_options_stop_early() -> None:
    of = plan(most_replications=300)
    effects = {"A": -30.0, "B": -29.5, "C": -100.0}
    drawn, runs = samples(of, lambda o, r: 300.0 + effects.get(o.name, 0.0) + noise(2, r, o.name, 5.0))
    found = rank_options(drawn, one_of_each(of))
    counts = {name: sum(option == name for option, _ in runs.done) for name in "ABC"}
    assert counts["C"] < counts["A"] == counts["B"]
    assert found.standings.tied_with("A") == ("B",)


def test_unsettled_pairs_are_reported() -> None:
    of = plan(most_replications=12)
    drawn, _ = samples(of, lambda o, r: 300.0 + noise(3, r, o.name, 40.0))
    found = rank_options(drawn, one_of_each(of))
    assert found.standings.unsettled == (("A", "B"), ("A", "C"), ("B", "C"))
    assert found.effects[0].against_today is PairVerdict.UNSETTLED


@pytest.mark.parametrize("only_first", [False, True])
def test_no_option_is_ranked_above_one_settled_as_better(only_first: bool) -> None:
    """Only the base is noisy, so gains are uncertain and differences between options are not."""
    true_means = {"A": 900.0, "B": 905.0, "C": 900.3}
    for seed in range(30):
        of = plan(most_replications=100, indifference=0.001)

        def turnaround(option: Option, r: int, seed: int = seed) -> float:
            if option == AS_IT_IS:
                return 1000.0 + noise(seed, r, deviation=20.0)
            return true_means[option.name] + noise(seed, r, option.name, 1.0)

        drawn, _ = samples(of, turnaround)
        found = rank_options(drawn, one_of_each(of), Criteria(only_first=only_first))
        names = [effect.option.name for effect in found.effects]
        for k, name in enumerate(names):
            verdicts = {found.standings.between(name, other) for other in names[k + 1 :]}
            assert PairVerdict.WORSE not in verdicts, (seed, names)
        assert names[0] != "B"


def test_an_option_may_be_harmful() -> None:
    of = plan()
    drawn, _ = samples(of, lambda o, r: 300.0 + (40.0 if o.name == "A" else 0.0) + noise(4, r, o.name, 3.0))
    found = rank_options(drawn, one_of_each(of))
    assert found.effects[-1].option.name == "A"
    assert found.effects[-1].against_today is PairVerdict.WORSE
    assert found.effects[-1].percent.mean == pytest.approx(-13.3, abs=1.5)


@pytest.mark.parametrize("n", [3, 5, 20])
@pytest.mark.parametrize(("left", "deviation"), [(0.02, 0.5), (0.9, 0.1), (0.97, 0.05), (1.5, 0.3)])
def test_percentages_say_the_same_as_differences_and_nothing_falls_by_more_than_all(
    n: int, left: float, deviation: float
) -> None:
    """Of a base that varies much, 90 % less was "89.9 +- 60.1 %", from the interval of the difference."""
    of, shown = plan(most_replications=n, first_replications=n), 0
    for seed in range(up_to(50)):

        def turnaround(o: Option, r: int, seed: int = seed) -> float:
            base = 100.0 * float(np.exp(noise(seed, r)))
            return base if o == AS_IT_IS else base * left * float(np.exp(noise(seed, r, o.name, deviation)))

        drawn, _ = samples(of, turnaround)
        for effect in rank_options(drawn, one_of_each(of)).effects:
            assert effect.percent.mean * effect.gain.mean > 0.0
            assert effect.percent.low <= effect.percent.mean <= effect.percent.high <= 100.0
            if effect.percent.half_width is not None:
                assert effect.percent.excludes_zero == effect.gain.excludes_zero
                shown += 1
    assert shown or n == 3


def test_goals_may_be_maximised() -> None:
    of = plan(goals=[{"metric": "utilisation"}])
    drawn, _ = samples(of, lambda o, r: 50.0 + (9.0 if o.name == "B" else 0.0) + noise(5, r, o.name))
    found = rank_options(drawn, one_of_each(of))
    assert found.effects[0].option.name == "B"
    assert found.effects[0].gain.mean == pytest.approx(9.0, abs=1.0)


def test_all_verdicts_hold_simultaneously_at_the_confidence() -> None:
    """Of plans with large noise; at 95 %, at least 182 of 200 are right."""
    plans, right = up_to(200), 0
    for seed in range(plans):
        of = plan(most_replications=60)
        drawn, _ = samples(
            of, lambda o, r, seed=seed: measured(o, r, seed) + noise(seed, r, f"x{o.name}", 40.0)
        )
        found = rank_options(drawn, one_of_each(of))
        true_means = {AS_IT_IS.name: 0.0, **EFFECTS}
        wrong = 0
        for one, other in (("A", "B"), ("A", "C"), ("B", "C")):
            verdict, gained = found.standings.between(one, other), true_means[other] - true_means[one]
            wrong += verdict is PairVerdict.BETTER and gained <= 0
            wrong += verdict is PairVerdict.WORSE and gained >= 0
            wrong += verdict is PairVerdict.TIE
        right += not wrong
    assert right >= 0.91 * plans


def test_what_costs_as_much_as_the_first_need_only_be_no_better() -> None:
    """All pairs of the first option were replicated until they were tied or worse."""
    of = plan(indifference=0.01)

    def turnaround(option: Option, r: int) -> float:
        effects = {"A": -30.0, "B": -28.5, "C": -28.5}
        return 300.0 + noise(6, r) + effects.get(option.name, 0.0) + noise(6, r, option.name, 8.0)

    drawn, runs = samples(of, turnaround)
    found = rank_options(drawn, one_of_each(of), Criteria(only_first=True))
    verdicts = {name: found.standings.between(name, "A") for name in "BC"}
    assert found.choice == "A"
    assert set(verdicts.values()) <= {PairVerdict.NO_BETTER, PairVerdict.WORSE}, verdicts
    assert PairVerdict.NO_BETTER in verdicts.values()
    first_only = len(runs.done)
    drawn, runs = samples(of, turnaround)
    rank_options(drawn, one_of_each(of))
    assert first_only < len(runs.done)


def test_an_option_that_costs_less_than_the_first_is_not_settled_by_being_no_better() -> None:
    of = plan()
    cheap, _, dear = one_of_each(of)
    drawn, _ = samples(of, lambda o, r: 300.0 - (o.name == "C") + noise(7, r, o.name, 8.0))
    found = rank_options(drawn, [cheap, dear], Criteria(only_first=True))
    assert found.standings.between("A", "C") is not PairVerdict.NO_BETTER


def test_an_option_that_was_settled_early_gets_only_the_replications_that_it_lacks() -> None:
    """B is soon worse than C. When A is the first option, B and A went on to the next look of A at once."""

    def turnaround(option: Option, r: int) -> float:
        c = 300.0 + noise(8, r, deviation=20.0) - 30.0 * (option != AS_IT_IS)
        alternating = 8.0 if r % 2 else -8.0
        return c + {"A": alternating + (1.0 if r < 40 else -1.0), "B": 3.0 + noise(8, r)}.get(
            option.name, 0.0
        )

    of = plan()
    drawn, runs = samples(of, turnaround)
    found = rank_options(drawn, one_of_each(of), Criteria(only_first=True))
    counts = {name: sum(option == name for option, _ in runs.done) for name in "ABC"}
    assert found.choice == "A"
    assert counts["B"] < counts["A"] == counts["C"], counts


def test_an_option_that_is_settled_early_has_no_mean_that_it_cannot_have() -> None:
    """The first replications, of long waits, settle A. Its gain in these was taken from the mean of all."""
    of = plan(most_replications=60)

    def wait(option: Option, r: int) -> float:
        share = {"A": 0.05, "B": 0.5, "C": 0.5 + 0.01 * noise(5, r)}.get(option.name, 1.0)
        return (1000.0 + 10.0 * noise(4, r) if r < 10 else 90.0 + noise(4, r)) * share

    drawn, _ = samples(of, wait)
    found = rank_options(drawn, one_of_each(of))
    means = {name: found.effect(name).of_goals[of.goals[0].key] for name in "ABC"}
    assert found.effect("A").n < found.effect("B").n
    assert means["A"] == pytest.approx(0.05 * found.base_means[of.goals[0].key])
    assert min(means, key=lambda name: means[name]) == "A"


def test_a_share_stays_one_where_an_option_has_the_replications_of_little_load() -> None:
    of = plan(most_replications=60, goals=[{"metric": "utilisation"}])
    usual = {"A": 0.9, "B": 0.7, "C": 0.7}

    def utilisation(option: Option, r: int) -> float:
        low = usual.get(option.name, 0.6) + 0.01 * noise(6, r, "low" + option.name * (option.name == "C"))
        return low if r < 10 else 0.95 + 0.01 * noise(6, r, option.name)

    drawn, _ = samples(of, utilisation)
    found = rank_options(drawn, one_of_each(of))
    assert found.effect("A").n < found.effect("B").n
    assert found.effect("A").of_goals["utilisation"] <= 1.0


def test_a_report_says_how_many_replications_would_settle_a_pair() -> None:
    of = plan(most_replications=12)

    def turnaround(option: Option, r: int) -> float:
        return 300.0 + noise(3, r, option.name, 10.0)

    found = rank_options(samples(of, turnaround)[0], one_of_each(of))
    needed = max(found.n_needed.values())
    assert set(found.n_needed) >= set(found.standings.unsettled)
    enough = plan(most_replications=3 * needed)
    settled = rank_options(samples(enough, turnaround)[0], one_of_each(enough))
    assert not settled.standings.unsettled
    assert min(effect.n for effect in settled.effects) > 12
    assert JointConfidence(0.95, 1, 1).n_needed(np.zeros(400), 1.0) is None
