"""What may be used now, as far as monitors and failed orders have told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.managers.availability import Availability
from scheduler.model import InterconnectReading, MachineReading, RunId, Site
from scheduler.ports import RunLost
from tests.examples import up_to
from tests.scheduler.fakes import ClusterOf, Reading, make_site

LAB = make_site(4, [ClusterOf((0, 1, 2), ("lan", "wan"), 0.6), ClusterOf((2, 3))])
TRIPLE, COUPLE = 4, 5


def machine(j: int, up: bool, at_s: float = 0.0) -> MachineReading:
    return MachineReading(j, up, at_s)


def link(name: str, up: bool, at_s: float = 0.0) -> InterconnectReading:
    return InterconnectReading(name, up, at_s)


def after(*readings: Reading, site: Site = LAB) -> Availability:
    availability = Availability(site)
    availability.read(readings)
    return availability


def one_cluster(size: int, least_share: float) -> Site:
    return make_site(size, [ClusterOf(tuple(range(size)), (), least_share)])


# -- machines and clusters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "available", "least_share"), [(25, 7, 0.28), (10, 3, 0.3), (3, 2, 2 / 3)])
def test_a_cluster_is_open_at_exactly_its_least_share_of_members(
    size: int, available: int, least_share: float
) -> None:
    down = [machine(j, False) for j in range(available, size)]
    enough = after(*down, site=one_cluster(size, least_share))
    assert enough.members() == (tuple(range(available)),)
    assert after(*down, machine(0, False), site=one_cluster(size, least_share)).members() == ((),)


def test_a_cluster_without_members_is_never_open() -> None:
    assert after(machine(0, False), machine(1, False), site=one_cluster(2, 0.0)).members() == ((),)
    assert after(link("lan", False), site=make_site(1, [ClusterOf((), ("lan",))])).members() == ((),)


# -- what changed ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reading", "machines"),
    [(machine(3, False), [2, 3]), (machine(2, False), [0, 1, 2, 3]), (link("wan", False), [0, 1, 2])],
    ids=str,
)
def test_a_reading_affects_the_machine_and_the_members_of_its_clusters(
    reading: Reading, machines: list[int]
) -> None:
    assert Availability(LAB).read([reading]) == machines


def test_a_reading_without_news_changes_nothing() -> None:
    availability = Availability(LAB)
    assert availability.read([machine(0, True), link("lan", True)]) == []
    availability.read([machine(0, False), link("lan", False)])
    assert availability.read([machine(0, False), link("lan", False)]) == []


# -- which reading counts ----------------------------------------------------------------------------------


def test_resources_found_down_by_a_failed_order_stay_down_until_a_later_reading() -> None:
    availability = Availability(LAB)
    assert availability.read(RunLost(RunId(0), 10.0, (3, "lan", "wan")).readings) == [0, 1, 2, 3]
    assert availability.read([machine(3, True, 9.0), link("wan", True, 9.0)]) == []
    assert availability.read([machine(3, True, 11.0)]) == [2, 3]
    assert availability.members() == ((), (2, 3))
    assert availability.read([link("wan", True, 10.0)]) == [0, 1, 2]


# -- what can still start ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("down", "machines", "resource", "can_start"),
    [
        ([machine(2, False)], (3,), 3, True),  # though its cluster is closed
        ([machine(2, False)], (2,), 2, False),
        ([machine(1, False)], (0, 2), TRIPLE, True),  # on the members that were planned
        ([machine(1, False)], (0, 1, 2), TRIPLE, False),
        ([], (0, 2), TRIPLE, True),  # planned on fewer members, and the others have recovered
        ([link("lan", False), link("wan", False)], (0, 1, 2), TRIPLE, False),
        ([link("lan", False), link("wan", False)], (2, 3), COUPLE, True),
    ],
)
def test_a_run_can_start_where_its_machines_are_up_and_its_cluster_is_open(
    down: list[Reading], machines: tuple[int, ...], resource: int, can_start: bool
) -> None:
    assert after(*down).has(machines, resource) is can_start


# -- in general --------------------------------------------------------------------------------------------

readings = st.one_of(
    st.builds(MachineReading, st.integers(0, 3), st.booleans(), st.integers(0, 9).map(float)),
    st.builds(
        InterconnectReading, st.sampled_from(("lan", "wan")), st.booleans(), st.integers(0, 9).map(float)
    ),
)


@settings(max_examples=up_to(200), deadline=None, derandomize=True)
@given(st.lists(st.lists(readings, max_size=6), max_size=6))
def test_availability_follows_the_latest_readings(batches: Sequence[Sequence[Reading]]) -> None:
    availability = Availability(LAB)
    before: tuple[list[bool], tuple[tuple[int, ...], ...]] = ([True] * 4, availability.members())
    latest: dict[int | str, Reading] = {}
    for batch in batches:
        changed = set(availability.read(batch))
        for reading in batch:
            subject = reading.machine if isinstance(reading, MachineReading) else reading.name
            if subject not in latest or reading.measured_s >= latest[subject].measured_s:
                latest[subject] = reading
        up = {
            subject for subject in (0, 1, 2, 3, "lan", "wan") if subject not in latest or latest[subject].up
        }
        triple = tuple(j for j in (0, 1, 2) if j in up)
        couple = tuple(j for j in (2, 3) if j in up)
        connected = "lan" in up or "wan" in up
        assert availability.up.tolist() == [j in up for j in range(4)]
        assert availability.members() == (
            triple if connected and len(triple) >= 2 else (),
            couple if len(couple) == 2 else (),
        )
        now = (availability.up.tolist(), availability.members())
        concerned = {j for j in range(4) if now[0][j] != before[0][j]}
        for c, everyone in enumerate(LAB.members):
            if now[1][c] != before[1][c]:
                concerned.update(everyone)
        assert changed >= concerned
        before = now
