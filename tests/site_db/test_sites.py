from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.managers.queues import MappingPolicy, QueuePolicy, UserPolicy
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from site_db import store
from site_db.estimation import PlaceKind, RunPlace, SiteLayout
from site_db.schema import SiteRow
from site_db.site_file import importing
from site_db.site_file.importing import put_site
from site_db.site_file.machine_names import Slots
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import SiteFile
from site_db.site_file.validation import errors
from site_db.sites import SiteReader, site_at, site_names
from site_db.store import parse_address
from tests.examples import up_to
from tests.site_db.site_texts import FULL, HCS_2001, NODES, SMALL, changed, read, site_of

ADDRESS = parse_address("small.db")
FAST, SLOW = (RunPlace(PlaceKind.MACHINE_CLASS, k) for k in (0, 1))
PAIR, MIXED = (RunPlace(PlaceKind.CLUSTER, c) for c in (0, 1))


def put(session: Session, text: str, folder: Path) -> SiteFile:
    file = read(text, folder)
    put_site(session, file)
    session.expunge_all()
    return file


# -- the small site ----------------------------------------------------------------------------------------


def test_the_small_site_round_trips_through_the_database(session: Session) -> None:
    assert SiteReader(session, "small").as_scheduled() == Site(
        "small",
        (
            Machine("f1", "fast"),
            Machine("f2", "fast"),
            Machine("s1", "slow"),
            Machine("s2", "slow"),
            Machine("odd", "slow"),
        ),
        (Cluster("pair", ("f1", "f2"), ("lan", "sci"), 1.0), Cluster("mixed", ("f2", "s1", "s2"), (), 0.5)),
        (Interconnect("lan", 100.0, 0.0), Interconnect("sci", 1280.5, 10.0)),
        (
            JobClass("short", ("fast", "slow"), ("pair", "mixed"), ("slow", "fast")),
            JobClass("long", ("fast",)),
            JobClass("wide", (), ("mixed",)),
        ),
    )


def test_the_small_sites_queues_keep_users_displacement_mapping_and_scheduler(session: Session) -> None:
    assert SiteReader(session, "small").queue_policies() == [
        (QueuePolicy("day", 2, frozenset({"ann", "bob"}), frozenset({"night"}), MappingPolicy.COMMIT), "mct"),
        (QueuePolicy("night", 0, None, frozenset(), MappingPolicy.REMAP), None),
        (QueuePolicy("closed", 0, frozenset(), frozenset(), MappingPolicy.COMMIT), None),
    ]


def test_the_small_sites_staff_times_are_stored_by_job_class_and_place(session: Session) -> None:
    assert SiteReader(session, "small").layout() == SiteLayout(
        job_classes=("short", "long", "wide"),
        machines=("f1", "f2", "s1", "s2", "odd"),
        machine_classes=("fast", "slow"),
        class_of_machine=(0, 0, 1, 1, 1),
        rating_of_machine=(None,) * 5,
        clusters=("pair", "mixed"),
        members=((0, 1), (1, 2, 3)),
        staff_s=({FAST: 10.0, SLOW: 30.5, PAIR: 6.0, MIXED: 9.0}, {FAST: 100.0}, {MIXED: 77.0}),
        slots=Slots((1,) * 5, (1, 1)),
    )


# -- a site that says everything ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [SMALL, FULL, NODES, HCS_2001.read_text()], ids=["small", "full", "nodes", "hcs-2001"]
)
def test_a_site_with_every_setting_round_trips(text: str, session: Session, tmp_path: Path) -> None:
    file = put(session, text, tmp_path)
    reader = SiteReader(session, file.name)
    assert reader.as_file() == file
    assert reader.as_scheduled() == site_of(file)


def test_a_job_class_with_a_command_but_no_time_may_run_without_an_estimate(
    session: Session, tmp_path: Path
) -> None:
    put(session, FULL, tmp_path)
    reader = SiteReader(session, "full")
    assert reader.layout().staff_s == ({FAST: 10.0, SLOW: None, PAIR: 4.0},)
    assert reader.as_scheduled().job_classes == (JobClass("flow", ("fast", "slow"), ("quad",), ("fast",)),)


def test_adjacent_identical_machine_groups_are_merged(session: Session, tmp_path: Path) -> None:
    text = changed(
        'names = ["s[1-2]", "odd"]\nmachine_class = "slow"\n',
        'names = ["s[1-2]"]\nmachine_class = "slow"\n\n'
        '[[machines]]\nnames = ["odd"]\nmachine_class = "slow"\n\n'
        '[[machines]]\nnames = ["big"]\nmachine_class = "slow"\nprocessors = 8\n',
        changed('name = "small"', 'name = "grouped"'),
    )
    put(session, text, tmp_path)
    groups = SiteReader(session, "grouped").as_file().machines
    assert [group.names for group in groups] == [("f1", "f2"), ("s1", "s2", "odd"), ("big",)]


# -- more than one site ------------------------------------------------------------------------------------


def test_two_sites_with_the_same_internal_names_stay_separate(session: Session, tmp_path: Path) -> None:
    other = changed("slow = 30.5", "slow = 44", changed('name = "small"', 'name = "other"'))
    other = changed('names = ["f[1-2]"]', 'names = ["f[1-3]"]', other)
    other = changed("least_share = 0.5", "least_share = 0.75", other)
    other = changed("mixed = 77", "mixed = 78", other)
    other = changed('["ann", "bob"]', '["cy"]', other)
    other = changed('["night"]', '["closed"]', other)
    file = put(session, other, tmp_path)
    assert SiteReader(session, "small").as_file() == read(SMALL, tmp_path)
    assert SiteReader(session, "other").as_file() == file
    assert SiteReader(session, "small").as_scheduled() == site_of(read(SMALL, tmp_path))
    assert SiteReader(session, "other").as_scheduled() == site_of(file)
    assert SiteReader(session, "small").layout().staff_s[2] == {MIXED: 77.0}
    assert SiteReader(session, "other").layout().staff_s[2] == {MIXED: 78.0}


def test_an_unknown_site_is_reported_with_the_known_ones(session: Session) -> None:
    session.add(SiteRow(name="annex"))
    with pytest.raises(UserError) as caught:
        SiteReader(session, "smal")
    assert str(caught.value) == "the database has no site 'smal'; it has annex, small"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Session]:
    engine = store.create(parse_address(str(tmp_path / "empty.sqlite")))
    with Session(engine) as session:
        yield session
    engine.dispose()


def test_the_only_site_of_a_database_need_not_be_named(session: Session) -> None:
    assert site_at(session, ADDRESS) == "small"


def test_a_site_must_be_named_if_there_are_several(session: Session) -> None:
    session.add(SiteRow(name="annex"))
    assert site_names(session) == ["annex", "small"]
    with pytest.raises(UserError) as caught:
        site_at(session, ADDRESS)
    assert str(caught.value) == (
        "which site of the database is meant? it has annex, small; add #NAME to its address"
    )


def test_an_empty_database_has_neither_a_default_site_nor_any_other(empty: Session) -> None:
    with pytest.raises(UserError, match=r"^the database has no site 'any'; it has none$"):
        SiteReader(empty, "any")
    with pytest.raises(UserError, match=r"^which site of the database is meant\? it has none$"):
        site_at(empty, ADDRESS)


# -- any site ----------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_characters="[]", exclude_categories=("C", "Z")), min_size=1, max_size=4)
NUMBERS = st.integers(0, 12).map(str) | st.integers(0, 12).map("{:02}".format)
LINES = st.text(st.characters(exclude_categories=("C",)), max_size=6) | st.sampled_from(
    ["", "a 'b' \"c\"", "ü\n\t\\"]
)
POSITIVE = st.floats(1e-6, 1e9, allow_subnormal=False) | st.integers(1, 10**6)
NOT_NEGATIVE = st.just(0) | POSITIVE
PRIORITIES = st.integers(-(2**31), 2**31 - 1)
WHOLE = st.integers(1, 2**31 - 1)
GPUS = {"a100": 4, "h100": 1}
RESOURCES = {"fpga": 2, "scratch": 10**12}
FEATURES = ["avx512", "ib", "nvlink"]


def some_of(names: Sequence[str], at_least: int = 0) -> st.SearchStrategy[list[str]]:
    if len(names) < at_least or not names:
        return st.just([])
    return st.lists(st.sampled_from(names), unique=True, min_size=at_least, max_size=len(names))


@st.composite
def part_of(draw: st.DrawFn, amounts: Mapping[str, int]) -> dict[str, int]:
    """Some of the names, each with its amount."""
    return {name: amounts[name] for name in draw(some_of([*amounts]))}


@st.composite
def site_files(draw: st.DrawFn, name: str | None = None) -> SiteFile:
    """A site with some of everything; its name is drawn too, unless it is given."""

    def names(prefix: str, at_least: int, at_most: int, words: Any = WORDS) -> list[str]:
        drawn = draw(st.lists(words, unique=True, min_size=at_least, max_size=at_most))
        return [f"{prefix}{word}" for word in drawn]

    # A machine must not have the name of another one's slot.
    of_machines = NUMBERS | NUMBERS | WORDS.filter(lambda word: "/" not in word)
    classes, machines = names("k", 1, 3), names("m", 1, 7, of_machines)
    slots = draw(st.integers(1, 3))  # members of a cluster have equally many
    links, clusters, queues = names("x", 0, 3), names("c", 0, 3), names("q", 0, 3)
    users, partitions = names("u", 0, 3), names("p", 0, 3)
    licences = {name: draw(st.integers(1, 10**12)) for name in names("l", 0, 2)}

    def table(**optional: Any) -> dict[str, Any]:
        """Some of the optional keys of a table."""
        return {key: draw(values) for key, values in optional.items() if draw(st.booleans())}

    def group(some: Sequence[str]) -> dict[str, Any]:
        return {
            "names": some,
            "machine_class": draw(st.sampled_from(classes)),
            "slots": slots,
            **table(
                processors=st.sampled_from([1, 2, 2**31 - 1]),
                memory_mb=st.sampled_from([0.5, 2048]),
                storage_gb=st.sampled_from([0, 80.5]),
                os=LINES,
                rating=POSITIVE,
                interconnects=some_of(links),
                notional=st.booleans(),
                threads_per_core=st.sampled_from([1, 2]),
                gpus=part_of(GPUS),
                resources=part_of(RESOURCES),
                features=some_of(FEATURES),
            ),
        }

    def request() -> dict[str, Any]:
        """One that the machines can satisfy, whatever they have."""
        return {
            **draw(st.just({}) | st.just({"nodes": 1}) | st.just({"tasks": 1})),
            **table(
                cores=st.sampled_from([0.001, 0.5, 1, 1.0]),
                site_resources=part_of(licences),
                exclusive=st.booleans(),
                time_limit_s=POSITIVE,
            ),
        }

    def one_that_needs(machine: str) -> dict[str, Any]:
        """A request for all that a machine has."""
        has = next(g for g in groups if machine in g["names"])
        gpus = has.get("gpus", {})
        of_gpus = {"gpus": sum(gpus.values()), **table(gpu_types=st.just([*gpus]))} if gpus else {}
        shared = draw(st.just({"gpus": 1, "gpu_share": 0.25})) if gpus and draw(st.booleans()) else of_gpus
        in_partitions = [p["name"] for p in partition_tables if machine in p["nodes"]]
        return {
            "cores": float(has.get("processors", 1)),
            "memory_mb": int(has.get("memory_mb", 0)),
            **shared,
            **table(
                resources=part_of(has.get("resources", {})),
                features=some_of(has.get("features", [])),
                partitions=some_of(in_partitions),
            ),
        }

    cuts = sorted(draw(st.lists(st.integers(0, len(machines)), max_size=3)))
    groups = [group(machines[a:b]) for a, b in zip([0, *cuts], [*cuts, len(machines)], strict=True)]
    partition_tables = [
        {
            "name": p,
            "nodes": draw(some_of(machines, at_least=1)),
            **table(
                max_time_s=st.floats(3600, 1e6),
                default_time_s=st.floats(1, 3600),
                max_nodes=WHOLE,
                exclusive=st.booleans(),
            ),
        }
        for p in partitions
    ]
    with_machines = sorted({g["machine_class"] for g in groups if g["names"]})

    def job_class(name: str) -> dict[str, Any]:
        runs_on = draw(some_of(classes))
        runs_on += [k for k in with_machines[:1] if k not in runs_on]
        return {
            "name": name,
            "sequential_s": {k: draw(POSITIVE) for k in runs_on},
            "parallel_s": {c: draw(POSITIVE) for c in draw(some_of(clusters))},
            "commands": {k: draw(LINES) for k in draw(some_of(classes))},
            "parallel_commands": {c: draw(LINES) for c in draw(some_of(clusters))},
            **table(
                description=LINES, size=LINES, network_mbit_per_s=NOT_NEGATIVE, preferred=some_of(classes)
            ),
            **({"request": requests()} if draw(st.booleans()) else {}),
        }

    def requests() -> dict[str, Any]:
        return request() if draw(st.booleans()) else one_that_needs(draw(st.sampled_from(machines)))

    def queue_tables() -> list[dict[str, Any]]:
        """A queue may displace only such as are served after it."""
        tables = [
            {
                "name": q,
                **table(
                    priority=PRIORITIES,
                    scheduler=st.none() | WORDS,
                    mapping=st.sampled_from(("commit", "remap")),
                    users=st.none() | st.lists(WORDS, unique=True, max_size=3),
                ),
            }
            for q in queues
        ]
        served = sorted(range(len(tables)), key=lambda k: (-tables[k].get("priority", 0), k))
        for rank, k in enumerate(served):
            tables[k] |= table(displaces=some_of([queues[later] for later in served[rank + 1 :]]))
        return tables

    def user(name: str) -> dict[str, Any]:
        others = draw(some_of([other for other in users if other != name]))
        where = {"queues": some_of(queues, at_least=1)} if queues else {}
        rights = [{"user": other, **table(**where)} for other in others]
        return {
            "name": name,
            "may_submit_as": rights,
            **table(queues=st.none() | some_of(queues), most_jobs=WHOLE, highest_priority=PRIORITIES),
        }

    return SiteFile.model_validate(
        {
            "name": draw(WORDS) if name is None else name,
            **table(description=LINES, only_listed_users=st.booleans()),
            "machine_classes": [{"name": k, **table(architecture=LINES)} for k in classes],
            "machines": groups,
            "interconnects": [
                {"name": x, "bandwidth_mbit_per_s": draw(POSITIVE), **table(latency_us=NOT_NEGATIVE)}
                for x in links
            ],
            "clusters": [
                {
                    "name": c,
                    "members": draw(some_of(machines, at_least=1)),
                    **table(interconnects=some_of(links), least_share=st.floats(0.01, 1)),
                }
                for c in clusters
            ],
            "partitions": partition_tables,
            "site_resources": [{"name": name, "amount": n} for name, n in licences.items()],
            "job_classes": [job_class(k) for k in names("j", 0, 3)],
            "queues": queue_tables(),
            "users": [user(u) for u in users],
        }
    )


@pytest.fixture(scope="module")
def crowded_database(shared_folder: Path) -> Engine:
    """Has other sites already, so that an id is never a position."""
    engine = store.create(parse_address(str(shared_folder / "crowded.sqlite")))
    with Session(engine) as session, session.begin():
        for text, name in ((SMALL, "small"), (FULL, "full"), (NODES, "nodes")):
            put_site(
                session, read(changed(f'name = "{name}"', f'name = "the first {name}"', text), shared_folder)
            )
    return engine


@settings(max_examples=up_to(100), deadline=None)
@given(file=site_files())
def test_any_site_round_trips_through_the_database(file: SiteFile, crowded_database: Engine) -> None:
    assert list(errors(file)) == []
    with Session(crowded_database) as session:
        put_site(session, file)
        session.expunge_all()
        reader = SiteReader(session, file.name)
        assert reader.as_file() == in_site_order(file)
        assert reader.as_scheduled() == site_of(file)
        assert reader.user_policies() == [
            UserPolicy(
                user.name,
                None if user.queues is None else frozenset(user.queues),
                user.most_jobs,
                user.highest_priority,
                {
                    right.user: None if right.queues is None else frozenset(right.queues)
                    for right in user.may_submit_as
                },
            )
            for user in file.users
        ]


@settings(max_examples=up_to(100), deadline=None)
@given(file=site_files())
def test_the_text_of_any_site_reads_as_the_same_site(file: SiteFile, shared_folder: Path) -> None:
    assert read(importing.site_text(file), shared_folder) == in_site_order(file)


@settings(max_examples=up_to(60), deadline=None)
@given(before=site_files("one"), after=site_files("one"))
def test_any_site_can_be_replaced_by_any_other(
    before: SiteFile, after: SiteFile, crowded_database: Engine
) -> None:
    with Session(crowded_database) as session:
        for file in (before, after):
            put_site(session, file)
            session.expunge_all()
        assert SiteReader(session, "one").as_file() == in_site_order(after)
