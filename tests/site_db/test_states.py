"""Current and previous states of machines, interconnects and clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db.schema import ClusterStateRow, InterconnectStateRow, MachineStateRow, SourceRow
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader
from site_db.states import CurrentStates, Observation, StateWriter, current_states
from site_db.store import Address
from tests.site_db.site_texts import FULL, read

UP, DOWN = Observation(up=True), Observation(up=False)


@pytest.fixture
def address(database: Path) -> Address:
    """SQLite only: on a server, other modules execute these statements."""
    return Address.of_file(database)


@pytest.fixture
def reader(session: Session) -> SiteReader:
    return SiteReader(session, "small")


def record_states(session: Session, reader: SiteReader, *seen: tuple[str, Observation]) -> CurrentStates:
    """What holds after things were seen one after another, a second each."""
    writer = StateWriter(session, reader)
    for at_s, (name, what) in enumerate(seen):
        writer.add(name, what, float(at_s))
    return current_states(session, reader)


def clusters(session: Session) -> list[tuple[float, int, bool]]:
    row = ClusterStateRow
    query = select(row.since_unix_s, row.available_members, row.accepts_parallel).order_by(row.id)
    return [tuple(state) for state in session.execute(query)]  # type: ignore[misc]


def test_without_recorded_states_nothing_is_down(session: Session, reader: SiteReader) -> None:
    states = current_states(session, reader)
    assert (states.down, dict(states.machines), dict(states.clusters)) == ([], {}, {})


def test_the_latest_state_is_current_and_previous_ones_are_kept(session: Session, reader: SiteReader) -> None:
    states = record_states(session, reader, ("f1", DOWN), ("s1", DOWN), ("f1", UP), ("f1", DOWN), ("s1", UP))
    assert states.down == ["f1"]
    rows = session.scalars(select(MachineStateRow).order_by(MachineStateRow.id)).all()
    assert [(row.since_unix_s, row.up) for row in rows] == [
        (0.0, False), (1.0, False), (2.0, True), (3.0, False), (4.0, True)
    ]  # fmt: skip


def test_the_last_recorded_state_wins_even_with_an_earlier_clock_time(
    session: Session, reader: SiteReader
) -> None:
    writer = StateWriter(session, reader)
    writer.add("f1", DOWN, 100.0)
    writer.add("f1", UP, 50.0)
    assert current_states(session, reader).down == []


def test_machine_loads_and_interconnect_traffic_are_recorded(session: Session, reader: SiteReader) -> None:
    line = Observation(up=True, traffic_mbit_per_s=40.0, committed_mbit_per_s=60.5)
    states = record_states(session, reader, ("f2", Observation(up=True, local_load=1.5)), ("sci", line))
    assert states.machines["f2"].local_load == 1.5
    sci = states.interconnects["sci"]
    assert (sci.up, sci.traffic_mbit_per_s, sci.committed_mbit_per_s) == (True, 40.0, 60.5)


def test_a_cluster_accepts_parallel_jobs_down_to_its_least_share_of_members(
    session: Session, reader: SiteReader
) -> None:
    """The cluster "mixed" (f2, s1, s2) accepts it with half of its three members."""
    states = record_states(session, reader, ("s1", DOWN), ("s2", DOWN), ("s1", UP))
    mixed = states.clusters["mixed"]
    assert (mixed.available_members, mixed.accepts_parallel) == (2, True)
    assert clusters(session) == [(0.0, 2, True), (1.0, 1, False), (2.0, 2, True)]


def test_a_machine_shared_by_two_clusters_changes_both(session: Session, reader: SiteReader) -> None:
    states = record_states(session, reader, ("f2", DOWN))
    found = {
        name: (state.available_members, state.accepts_parallel) for name, state in states.clusters.items()
    }
    assert found == {"pair": (1, False), "mixed": (2, True)}


def test_a_cluster_without_a_working_interconnect_accepts_no_parallel_jobs(
    session: Session, reader: SiteReader
) -> None:
    record_states(session, reader, ("lan", DOWN), ("sci", DOWN), ("lan", UP))
    assert clusters(session) == [(0.0, 2, True), (1.0, 2, False), (2.0, 2, True)]


def test_a_state_without_effect_on_a_cluster_adds_no_cluster_state(
    session: Session, reader: SiteReader
) -> None:
    record_states(session, reader, ("f1", DOWN), ("f1", DOWN), ("f1", Observation(up=False, local_load=2.0)))
    assert clusters(session) == [(0.0, 1, False)]
    # Also not for one who begins anew from what is in the database.
    record_states(session, reader, ("f1", DOWN))
    assert clusters(session) == [(0.0, 1, False)]


def test_states_of_a_testbed_run_do_not_count_for_the_site(session: Session, reader: SiteReader) -> None:
    record_states(session, reader, ("f1", DOWN))
    source = SourceRow(site_id=reader.site.id, kind="testbed", key="a run")
    session.add(source)
    session.flush()
    writer = StateWriter(session, reader, source.id)
    writer.add("s1", DOWN, 1.0)
    writer.add("lan", DOWN, 2.0)
    writer.add("s2", DOWN, 3.0)
    assert current_states(session, reader).down == ["f1"]
    recorded = select(ClusterStateRow.available_members).where(ClusterStateRow.source_id == source.id)
    assert session.scalars(recorded.order_by(ClusterStateRow.id)).all() == [2, 2, 1]
    assert session.scalars(select(InterconnectStateRow.source_id)).all() == [source.id]


def test_states_of_two_sites_stay_separate(session: Session, reader: SiteReader, tmp_path: Path) -> None:
    put_site(session, read(FULL, tmp_path))
    full = SiteReader(session, "full")
    record_states(session, full, ("s1", DOWN))
    assert (current_states(session, full).down, current_states(session, reader).down) == (["s1"], [])


def test_an_unknown_resource_is_rejected(session: Session, reader: SiteReader) -> None:
    with pytest.raises(UserError) as caught:
        record_states(session, reader, ("pair", DOWN))
    assert str(caught.value) == "the site 'small' has no machine or interconnect 'pair'"
