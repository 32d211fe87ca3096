"""Fair-share factors match the examples in Slurm's documentation, and usage decays with its half-life."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from scheduler.priority.claims import Claimant, Shares
from scheduler.priority.core.fair_share import FairShare
from scheduler.priority.policy import PARENT, ROOT, Association, Multifactor

CLASSIC = Multifactor(fair_tree=False)
TREE = Multifactor()


def account(name: str, shares: int = 1, parent: str = ROOT) -> Association:
    return Association(name, parent=parent, shares=shares)


def user(name: str, within: str, shares: int = 1, usage: float = 0.0) -> Association:
    return Association(within, name, within, shares, usage=usage)


def factors(*associations: Association, how: Multifactor = TREE) -> Mapping[str, float]:
    """The factor of each user, after a first calculation."""
    shares = Shares(associations)
    fair = shares.fair_share(how)
    fair.calculate(0.0)
    users = (each for each in associations if each.user)
    return {each.user: fair.factor_of(shares.of(Claimant(each.user, each.account))) for each in users}


EXAMPLE = (
    account("A", 40), account("D", 60),
    account("B", 30, "A"), account("C", 10, "A"), account("E", 25, "D"), account("F", 35, "D"),
    user("1", "B", usage=20), user("2", "C", usage=25), user("3", "C"),
    user("4", "E", usage=25), user("5", "F"),
    user("others", ROOT, 0, usage=30),
)  # fmt: skip
"""The tree of the example of the classic algorithm; what none of it has used, others have."""


def test_the_example_of_the_classic_algorithm() -> None:
    found = factors(*EXAMPLE, how=CLASSIC)
    expected = {"1": 0.408479, "2": 0.022097, "3": 0.125, "4": 0.5, "5": 0.749154, "others": 0.0}
    assert {name: round(factor, 6) for name, factor in found.items()} == expected


def test_dampening_divides_the_ratio_of_the_classic_algorithm() -> None:
    found = factors(*EXAMPLE, how=Multifactor(fair_tree=False, dampening=5))
    assert found["4"] == pytest.approx(2 ** (-1 / 5), rel=1e-15)


def test_all_below_a_better_account_come_before_all_below_a_worse_one() -> None:
    """Users are ranked in order of a traversal, whatever they have used compared with users elsewhere."""
    found = factors(
        *(account("good", 3), account("bad", 1)),
        *(user("g1", "good", usage=30), user("g2", "good", usage=10)),
        *(user("b1", "bad", usage=60), user("b2", "bad")),
    )
    assert found == {"g2": 1.0, "g1": 0.75, "b2": 0.5, "b1": 0.25}


def test_siblings_with_equal_levels_have_equal_factors() -> None:
    found = factors(
        user("a", ROOT, usage=10), user("b", ROOT, 2, usage=20), user("c", ROOT, usage=30), user("d", ROOT)
    )
    assert found == {"d": 1.0, "a": 0.75, "b": 0.75, "c": 0.25}


def test_a_user_has_the_factor_of_the_first_user_of_an_account_with_the_same_level() -> None:
    found = factors(
        *(account("a"), user("u", ROOT, usage=40), user("other", ROOT, 2, usage=20)),
        *(user("first", "a", usage=10), user("second", "a", usage=30)),
    )
    assert found == {"other": 1.0, "u": 0.75, "first": 0.75, "second": 0.25}


def test_users_of_accounts_with_equal_levels_are_ranked_by_account_as_slurm_does() -> None:
    """Slurm's documentation says that the users of such accounts are ranked together. Its code
    (`_count_tied_accounts`) never merges two accounts: the first user of the second one has the
    rank of the last user of the first."""
    found = factors(
        *(account("a"), account("b")),
        *(user("a1", "a", 3, usage=20), user("a2", "a", usage=20)),
        *(user("b1", "b", 2, usage=20), user("b2", "b", usage=20)),
    )
    assert found == {"a1": 1.0, "a2": 0.75, "b1": 0.75, "b2": 0.25}


def test_without_usage_all_have_the_highest_factor_and_without_shares_the_lowest() -> None:
    assert factors(user("a", ROOT), user("b", ROOT, 5), user("none", ROOT, 0)) == {
        "a": 1.0, "b": 1.0, "none": pytest.approx(1 / 3)
    }  # fmt: skip


def test_users_with_fairshare_parent_rank_first_in_their_account() -> None:
    found = factors(
        *(account("a", 1), account("b", 3)),
        *(user("p", "a", PARENT, usage=100), user("q", "a", 5), user("r", "a", 5, usage=10)),
        user("s", "b", usage=5),
    )
    assert found == {"s": 1.0, "p": 0.75, "q": 0.75, "r": 0.25}


def test_users_of_an_account_with_fairshare_parent_compete_one_level_above() -> None:
    found = factors(
        *(account("a", 1), account("b", PARENT, "a"), account("c", 1, "a")),
        *(user("x", "b", 3, usage=10), user("y", "b", 1, usage=20), user("z", "c", usage=10)),
    )
    assert found == {"x": 1.0, "z": pytest.approx(2 / 3), "y": pytest.approx(1 / 3)}


def test_in_the_classic_algorithm_users_with_fairshare_parent_have_the_factor_of_their_account() -> None:
    found = factors(
        *(account("a", 1), account("b", 3)),
        *(user("p", "a", PARENT, usage=30), user("q", "a", PARENT), user("r", "b", usage=10)),
        user("of root", ROOT, PARENT),
        how=CLASSIC,
    )
    assert found["p"] == found["q"] == pytest.approx(2 ** (-0.75 / 0.25))
    assert found["r"] == pytest.approx(2 ** (-0.25 / 0.75))
    assert found["of root"] == 0.5  # the root has used all, and has all shares


def test_usage_of_accounts_and_users_before_the_log_counts_in_all_accounts_above() -> None:
    shares = Shares(
        (
            Association("a", usage=7),
            Association("b", parent="a", usage=5),
            user("u", "b", usage=11),
            user("v", ROOT, usage=1),
        )
    )
    usage = shares.fair_share(TREE).usage
    found = {key: usage[n] for key, n in shares.number.items()}
    assert found == {(ROOT, ""): 24, ("a", ""): 23, ("b", ""): 16, ("b", "u"): 11, (ROOT, "v"): 1}


HALF_LIFE_S, PERIOD_S = 3_600.0, 60.0
D = 1 - 0.693 / HALF_LIFE_S
"""What is left after a second, as Slurm approximates it."""


def one_user(usage: float = 0.0) -> FairShare:
    how = Multifactor(half_life_s=HALF_LIFE_S, period_s=PERIOD_S)
    return Shares((account("a"), user("u", "a", usage=usage))).fair_share(how)


def used(fair: FairShare) -> list[float]:
    return [each * fair.scale for each in fair.usage]


@pytest.mark.parametrize("n_half_lives", [1, 3, 50, 2_000])
def test_usage_decays_with_the_half_life(n_half_lives: int) -> None:
    fair = one_user(1e6)
    fair.calculate(n_half_lives * HALF_LIFE_S)
    expected = 1e6 * D ** (n_half_lives * HALF_LIFE_S)
    assert used(fair) == pytest.approx([expected] * 3, rel=1e-9, abs=1e-300)
    assert expected == pytest.approx(1e6 * 0.5**n_half_lives, rel=3e-4 * n_half_lives, abs=1e-200)


@pytest.mark.parametrize("n_half_lives", [1, 5, 40])
def test_the_usage_of_a_run_is_the_sum_of_a_geometric_series(n_half_lives: int) -> None:
    """Each period's part counts as if it had been used at the beginning of the period, as in Slurm."""
    fair, rate = one_user(), 8.0
    fair.calculate(0.0)
    fair.begins(0, 2, rate, 0.0)
    n, left = n_half_lives * 60, D**PERIOD_S
    fair.calculate(n * PERIOD_S)
    expected = rate * PERIOD_S * left * (1 - left**n) / (1 - left)
    assert used(fair) == pytest.approx([expected] * 3, rel=1e-10)


def test_a_run_that_ends_between_two_calculations_counts_from_the_next_one_on() -> None:
    fair = one_user()
    fair.calculate(0.0)
    fair.begins(0, 2, 2.0, 10.0)
    fair.ends(0, 95.0)
    first, last = 2 * 50 * D**50, 2 * 35 * D**35
    assert used(fair) == pytest.approx([first] * 3, rel=1e-14)
    fair.calculate(120.0)
    assert used(fair) == pytest.approx([(first + last) * D**60] * 3, rel=1e-14)


def test_without_half_life_nothing_decays() -> None:
    how = Multifactor(half_life_s=float("inf"), period_s=PERIOD_S)
    fair = Shares((user("u", ROOT),)).fair_share(how)
    fair.begins(0, 1, 3.0, 0.0)
    fair.ends(0, 1e6)
    fair.calculate(1e7)
    assert used(fair) == pytest.approx([3e6] * 2, rel=1e-12)


def test_effective_usage_of_accounts_is_as_before_a_calculation_and_has_the_runs_that_ended() -> None:
    """Slurm adds what a run used when it ends, and calculates the effective usage of accounts at the next
    calculation, before it adds what others use."""
    shares = Shares((account("a"), account("b"), user("u", "a"), user("v", "a"), user("w", "b")))
    fair = shares.fair_share(Multifactor(fair_tree=False, period_s=PERIOD_S))
    u, v, w = (shares.number[key] for key in (("a", "u"), ("a", "v"), ("b", "w")))
    fair.calculate(0.0)
    fair.begins(0, u, 1.0, 0.0)
    fair.begins(1, w, 1.0, 0.0)
    fair.ends(0, 30.0)
    fair.calculate(60.0)
    a_used = fair.usage[u] / fair.usage[0]
    effective_of_a = 1.0  # only the run of u had ended
    expected = a_used + (effective_of_a - a_used) / 2
    assert fair.factor_of(u) == pytest.approx(2 ** -(expected / 0.25), rel=1e-14)
    assert fair.factor_of(v) == pytest.approx(2 ** -(0.5 / 0.25), rel=1e-14)


def test_a_job_without_association_uses_nothing_and_has_no_fair_share() -> None:
    shares = Shares((account("a"), user("u", "a")))
    stranger = shares.of(Claimant("stranger", "a"))
    fair = shares.fair_share(Multifactor(period_s=PERIOD_S))
    fair.begins(0, stranger, 100.0, 0.0)
    fair.ends(0, 1_000.0)
    fair.calculate(2_000.0)
    assert used(fair) == [0.0] * 3
    assert fair.factor_of(stranger) == 0.0


def test_a_job_that_names_no_account_has_the_users_default_one() -> None:
    first, second = user("u", "b"), user("u", "a")
    shares = Shares((account("a"), account("b"), first, second))
    assert shares.of(Claimant("u")) == shares.number[("b", "u")]
    assert shares.of(Claimant("u", "a")) == shares.number[("a", "u")]
