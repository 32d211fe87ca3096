"""The best buy is optimal; sizing finds the least number."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.planning import searches as searching
from sil.planning.options import AS_IT_IS, Counts, Option, affordable, bought
from sil.planning.searches import best_buy, search, size
from tests.examples import up_to
from tests.sil.planning.fake_runs import noise, plan, samples


def quiet(n: int, unsettled: int) -> None:
    return


def count_of(option: Option) -> tuple[int, int, int]:
    return tuple(option.offers.count(k) for k in range(3))  # type: ignore[return-value]


def worth(counts: Counts) -> float:
    """A and C work well together; a second B does little."""
    a, b, c = counts
    return 10 * a**0.7 + 14 * b**0.3 + 15 * c + 12 * min(a, c)


def test_each_unit_of_an_offer_has_its_own_cluster() -> None:
    offers = [
        {"name": "box", "changes": ["4 x kind as cluster new over lan", "1 x kind"], "price": 5.0, "limit": 3}
    ]
    three = bought(plan(offers=offers), (3,))
    assert [change.add for change in three.changes] == [
        "4 x kind as cluster new over lan",
        "1 x kind",
        "4 x kind as cluster new-2 over lan",
        "1 x kind",
        "4 x kind as cluster new-3 over lan",
        "1 x kind",
    ]
    assert (three.name, three.cost) == ("3 x box", 15.0)


def test_running_costs_are_counted_for_the_years_of_the_plan() -> None:
    offers = [{"name": "box", "changes": ["1 x kind"], "price": 5.0, "running_cost": 2.0, "limit": 2}]
    assert bought(plan(offers=offers, years=3.0), (2,)).cost == 22.0


def test_few_combinations_are_enumerated() -> None:
    of = plan(budget=40.0)
    possible = {c for c in product(range(4), repeat=3) if 10 * c[0] + 10 * c[1] + 20 * c[2] <= 40}
    assert set(affordable(of)) == possible
    drawn, _ = samples(of, lambda o, r: 300.0 - worth(count_of(o)) + noise(1, r, deviation=50.0))
    found = best_buy(drawn, AS_IT_IS, lambda option: True, quiet)
    assert found is not None
    assert found.is_complete
    best = max(possible, key=worth)
    assert count_of(found.ranking.effects[0].option) == best
    assert not [
        pair for pair in found.ranking.standings.unsettled if found.ranking.effects[0].option.name in pair
    ]


def test_local_search_finds_the_best_of_many_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_ENUMERATED", 5)
    of = plan(budget=70.0)
    drawn, _runs = samples(of, lambda o, r: 300.0 - worth(count_of(o)) + noise(2, r, deviation=50.0))
    found = best_buy(drawn, AS_IT_IS, lambda option: True, quiet)
    assert found is not None
    assert count_of(found.ranking.effects[0].option) == max(affordable(of), key=worth)
    assert found.tried <= found.possible


@given(
    gains=st.lists(st.integers(0, 50), min_size=3, max_size=3),
    exponents=st.lists(st.sampled_from([0.3, 0.6, 1.0]), min_size=3, max_size=3),
    budget=st.integers(20, 90),
)
@settings(max_examples=up_to(200))
def test_local_search_is_optimal_with_diminishing_returns(
    gains: list[int], exponents: list[float], budget: int
) -> None:
    of = plan(budget=float(budget))

    def value(counts: Counts) -> float:
        return sum(g * n**e for g, n, e in zip(gains, counts, exponents, strict=True))

    found = search(of, lambda many: [value(counts) for counts in many])
    assert value(found) == pytest.approx(max(map(value, affordable(of))))


def test_options_that_cannot_handle_the_forecast_are_not_bought() -> None:
    of = plan(budget=40.0)
    drawn, runs = samples(of, lambda o, r: 300.0 - worth(count_of(o)))
    found = best_buy(drawn, AS_IT_IS, lambda option: option.offers.count(2) == 0, quiet)
    assert found is not None
    assert count_of(found.ranking.effects[0].option)[2] == 0
    assert not [name for name, _ in runs.done if "C" in name]
    assert best_buy(drawn, AS_IT_IS, lambda option: option is AS_IT_IS, quiet) is None


def needed(
    target: float, limit: int = 12, deviation: float = 8.0, most: int = 200
) -> tuple[int | None, bool]:
    """Each A takes 10 s off 200 s."""
    offers = [{"name": "A", "changes": ["1 x kind"], "price": 1.0, "limit": 12}]
    of = plan(offers=offers, size={"offer": "A", "target": target}, most_replications=most)
    drawn, _ = samples(of, lambda o, r: 200.0 - 10.0 * len(o.offers) + noise(3, r, o.name, deviation))
    found = size(drawn, lambda option: True, quiet)
    return found.count, found.is_settled


@pytest.mark.parametrize(
    ("target", "count"),
    [(144.0, 6), (199.0, 1), (84.0, 12), (230.0, 0), (70.0, None)],
    ids=["six", "one", "all", "met already", "unreachable"],
)
def test_bisection_finds_the_smallest_number_that_meets_a_target(target: float, count: int | None) -> None:
    assert needed(target) == (count, True)


def test_a_target_within_the_indifference_zone_is_met() -> None:
    assert needed(150.0, deviation=1.0) == (5, True)


def test_an_unsettled_size_is_reported() -> None:
    _count, is_settled = needed(145.0, deviation=200.0, most=12)
    assert not is_settled
