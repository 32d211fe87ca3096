"""Machines with several slots: names, indices, estimates, and what is recorded of runs in slots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.model import Cluster, ExecutionRecord, Job, JobId, Machine
from site_db.estimation import Rule
from site_db.experience import MemoryExperience, StatisticsReader
from site_db.jobs.records import LIVE
from site_db.jobs.writer import BadRecord, JobWriter
from site_db.schema import ExecutionHistoryRow, JobRow, MachineRow
from site_db.site_file.importing import put_site
from site_db.site_file.machine_names import Slots, machine_of_slot, slot_names
from site_db.sites import SiteReader
from site_db.states import Observation, StateWriter, current_states
from site_db.store import Address
from tests.examples import up_to
from tests.site_db.site_texts import a_run, changed, read, refusal

SLOTTED = """
name = "slotted"
machine_classes = [{ name = "node" }]
machines = [
  { names = ["n[1-2]"], machine_class = "node", slots = 2 },
  { names = ["single"], machine_class = "node" },
]
clusters = [{ name = "pair", members = ["n[1-2]"], least_share = 0.5 }]
job_classes = [{ name = "work", sequential_s = { node = 10 }, parallel_s = { pair = 6 } }]
"""
SINGLE, PAIR = 4, 5
"""As schedulers number them, after n1/1, n1/2, n2/1 and n2/2."""
N1, N2 = 0, 1
WORK = Job(JobId(0), "work", 0.0)


@pytest.fixture
def address(database: Path) -> Address:
    """SQLite only: on a server, other modules execute these statements."""
    return Address.of_file(database)


@pytest.fixture
def slotted(session: Session, tmp_path: Path) -> Session:
    put_site(session, read(SLOTTED, tmp_path))
    session.flush()
    return session


@pytest.fixture
def experience(slotted: Session) -> MemoryExperience:
    return experience_of(slotted)


def experience_of(session: Session) -> MemoryExperience:
    reader = StatisticsReader(session, "slotted")
    return MemoryExperience(reader.layout, reader.statistics(session))


def expected_s(experience: MemoryExperience, *members: int) -> list[float]:
    return [float(time_s) for time_s in experience.estimate([WORK], members or (4,)).row(0)]


def ran(experience: MemoryExperience, resource: int, n: int, *run_times_s: float) -> None:
    for time_s in run_times_s:
        experience.record(ExecutionRecord(WORK, resource, n, 0.0, time_s))


def record(session: Session, *resources: str, time_s: float = 20.0, members: int | None = None) -> None:
    jobs = [
        a_run(name, time_s, job_class="work", number=str(k), members=members)
        for k, name in enumerate(resources)
    ]
    JobWriter(session, "slotted").add(session, LIVE, jobs)
    session.flush()


# -- names and indices -------------------------------------------------------------------------------------


def test_schedulers_see_each_slot_as_a_machine_and_all_slots_of_its_members_as_a_cluster(
    slotted: Session,
) -> None:
    site = SiteReader(slotted, "slotted").as_scheduled()
    names = ("n1/1", "n1/2", "n2/1", "n2/2", "single")
    assert site.machines == tuple(Machine(name, "node") for name in names)
    assert site.clusters == (Cluster("pair", ("n1/1", "n1/2", "n2/1", "n2/2"), (), 0.5),)


def test_the_layout_of_estimates_has_machines_and_their_slots(slotted: Session) -> None:
    layout = SiteReader(slotted, "slotted").layout()
    assert layout.machines == ("n1", "n2", "single")
    assert layout.members == ((N1, N2),)
    assert layout.slots == Slots((2, 2, 1), (2,))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
@settings(max_examples=up_to(50), deadline=None)
def test_every_slot_leads_back_to_its_machine(n_slots: list[int]) -> None:
    slots, of_machine = Slots(tuple(n_slots)), {f"m/{j}": n for j, n in enumerate(n_slots)}
    named = [name for machine, n in of_machine.items() for name in slot_names(machine, n)]
    assert len(named) == len(set(named)) == len(slots.machine_of)
    for j, of_one in enumerate(slots.by_machine):
        assert {slots.place(slot, 1) for slot in of_one} == {(j, 1)}
        assert {machine_of_slot(named[slot], of_machine) or named[slot] for slot in of_one} == {f"m/{j}"}
    assert sorted(slot for of_one in slots.by_machine for slot in of_one) == list(range(len(named)))


@pytest.mark.parametrize(
    "name", ["n1", "n1/0", "n1/3", "n1/01", "n1/", "n1/x", "n1/²", "single/1", "other/1"]
)
def test_other_names_are_not_those_of_slots(name: str) -> None:
    assert machine_of_slot(name, {"n1": 2, "single": 1}) is None


def test_machines_with_one_slot_may_have_names_with_a_slash(tmp_path: Path) -> None:
    assert read(changed('["single"]', '["single", "single/1", "n1/3", "n1/01"]', SLOTTED), tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            '["single"]',
            '["single", "n1/2"]',
            "the machine 'n1/2' has the name of a slot of the machine 'n1', which has 2 slots; rename it",
        ),
        (
            'name = "pair"',
            'name = "n2/1"',
            "the cluster 'n2/1' has the name of a slot of the machine 'n2', which has 2 slots; rename it",
        ),
        (
            'members = ["n[1-2]"]',
            'members = ["n1", "single"]',
            "cluster 'pair': its members have different numbers of slots, 1 ('single') and 2 ('n1'); give "
            "all of them equally many, or put them in different clusters",
        ),
        ("slots = 2", "slots = 0", "machines[0].slots = 0: expected a number greater than or equal to 1"),
    ],
)
def test_slots_that_contradict_the_site_are_rejected(
    old: str, new: str, sentence: str, tmp_path: Path
) -> None:
    assert sentence in refusal(changed(old, new, SLOTTED), tmp_path)


# -- estimates ---------------------------------------------------------------------------------------------


def test_all_slots_of_a_machine_have_its_estimate(experience: MemoryExperience) -> None:
    assert expected_s(experience) == [10.0] * 5 + [6.0]
    ran(experience, 0, 1, *[20.0] * 15)
    ran(experience, 1, 1, *[22.0] * 15)
    ran(experience, SINGLE, 1, *[51.0] * 10)
    # n1 speaks for itself after 30 runs in any of its slots: 21 s; the others have the mean of their class.
    of_class = (30 * 21.0 + 10 * 51.0) / 40
    assert expected_s(experience) == pytest.approx([21.0, 21.0, of_class, of_class, of_class, 6.0])


def test_a_clusters_run_time_depends_on_machines_not_on_slots(experience: MemoryExperience) -> None:
    assert [expected_s(experience, n_slots)[PAIR] for n_slots in (4, 2, 0)] == [6.0, 12.0, 6.0]
    ran(experience, PAIR, 2, *[15.0] * 3)
    assert experience.explain(WORK, 3, members=1).rule is Rule.CLUSTER  # type: ignore[union-attr]
    assert [expected_s(experience, n_slots)[PAIR] for n_slots in (4, 2)] == [7.5, 15.0]


def test_a_machine_counts_if_only_some_of_its_slots_are_used() -> None:
    slots = Slots((4, 4), (4,))
    assert [slots.place(8, n)[1] for n in (1, 4, 5, 8)] == [1, 1, 2, 2]


# -- what is recorded --------------------------------------------------------------------------------------


def test_a_run_in_a_slot_counts_for_its_machine(slotted: Session) -> None:
    record(slotted, "n1/1", "n1/2", "n1", "n2/2", "single")
    of_job = select(JobRow.number, MachineRow.name).join(MachineRow, MachineRow.id == JobRow.machine_id)
    where = [tuple(row) for row in slotted.execute(of_job.order_by(JobRow.serial))]
    assert where == [("0", "n1"), ("1", "n1"), ("2", "n1"), ("3", "n2"), ("4", "single")]
    row = ExecutionHistoryRow
    runs = select(MachineRow.name).join(row, row.machine_id == MachineRow.id).order_by(row.number)
    assert slotted.scalars(runs).all() == ["n1", "n1", "n1", "n2", "single"]


@pytest.mark.parametrize("name", ["n1/3", "single/1"])
def test_a_slot_that_a_machine_does_not_have_is_not_recorded(name: str, slotted: Session) -> None:
    with pytest.raises(BadRecord, match=f"no machine or cluster '{name}'"):
        record(slotted, name)


def test_a_cluster_has_as_many_members_as_machines(slotted: Session) -> None:
    with pytest.raises(BadRecord, match="it ran on 4 machines of the cluster 'pair', which has 2"):
        record(slotted, "pair", members=4)


def test_states_are_those_of_machines(slotted: Session) -> None:
    reader = SiteReader(slotted, "slotted")
    StateWriter(slotted, reader).add("n1", Observation(up=False), 5.0)
    now = current_states(slotted, reader)
    assert now.down == ["n1"]
    assert (now.clusters["pair"].available_members, now.clusters["pair"].accepts_parallel) == (1, True)
