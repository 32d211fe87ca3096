from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from scheduler.queues import MappingPolicy, QueuePolicy
from site_db import exchange, sites, store
from site_db.exchange import SiteFile
from site_db.schema import Base, SiteRow
from site_db.sites import UnknownSite
from tests.site_db.site_texts import HCS_2001, SMALL, changed, read, site_of


def test_the_small_site_comes_out_of_the_database_in_every_detail(session: Session) -> None:
    assert sites.load_site(session, "small") == Site(
        "small",
        (
            Machine("f1", "fast"),
            Machine("f2", "fast"),
            Machine("s1", "slow"),
            Machine("s2", "slow"),
            Machine("odd", "slow"),
        ),
        (
            Cluster("pair", ("f1", "f2"), ("lan", "sci"), 1.0),
            Cluster("mixed", ("f2", "s1", "s2"), (), 0.5),
        ),
        (Interconnect("lan", 100.0, 0.0), Interconnect("sci", 1280.5, 10.0)),
        (
            JobClass("short", ("fast", "slow"), ("pair", "mixed"), ("slow", "fast")),
            JobClass("long", ("fast",)),
            JobClass("wide", (), ("mixed",)),
        ),
    )


def test_its_queues_come_out_with_users_displaced_queues_mapping_and_scheduler(session: Session) -> None:
    assert sites.load_queues(session, "small") == [
        (
            QueuePolicy("day", 2, frozenset({"ann", "bob"}), frozenset({"night"}), MappingPolicy.COMMIT),
            "mct",
        ),
        (QueuePolicy("night", 0, None, frozenset(), MappingPolicy.REMAP), None),
        (QueuePolicy("closed", 0, frozenset(), frozenset(), MappingPolicy.COMMIT), None),
    ]


def test_its_expected_times_stand_at_the_job_class_and_the_resource_and_are_infinite_elsewhere(
    session: Session,
) -> None:
    inf = np.inf
    etc = sites.load_expected_times(session, "small")
    assert etc.dense().tolist() == [
        [10.0, 10.0, 30.5, 30.5, 30.5, 6.0, 9.0],
        [100.0, 100.0, inf, inf, inf, inf, inf],
        [inf, inf, inf, inf, inf, inf, 77.0],
    ]
    assert etc.resource_class_names == ("fast", "slow", "pair", "mixed")


def test_members_and_interconnects_come_out_in_the_order_of_the_site(tmp_path: Path, engine: Engine) -> None:
    text = changed('["f1", "f2"]', '["f2", "f1"]').replace('["lan", "sci"]', '["sci", "lan"]')
    text = changed('name = "small"', 'name = "turned"', text)
    with Session(engine) as session:
        sites.add_site(session, read(text, tmp_path))
        session.expunge_all()
        pair = sites.load_site(session, "turned").clusters[0]
    assert pair == Cluster("pair", ("f1", "f2"), ("lan", "sci"))


def test_all_142_machines_and_18_clusters_of_collins_and_george_come_out_as_they_went_in(
    tmp_path: Path,
) -> None:
    file = exchange.read_site_file(HCS_2001)
    engine = store.create(tmp_path / "hcs.sqlite")
    with Session(engine) as session, session.begin():
        sites.add_site(session, file)
    with Session(engine) as session:
        site = sites.load_site(session, "hcs-2001")
        etc = sites.load_expected_times(session, "hcs-2001")
        assert sites.load_queues(session, "hcs-2001") == []
    engine.dispose()
    assert site == site_of(file)
    assert (site.n_machines, len(site.clusters)) == (142, 18)
    assert sorted(len(cluster.members) for cluster in site.clusters) == [6] + [8] * 17
    for c, job_class in enumerate(file.job_classes):
        on_machines = [job_class.sequential_s.get(machine.machine_class, np.inf) for machine in site.machines]
        on_clusters = [job_class.parallel_s.get(cluster.name, np.inf) for cluster in site.clusters]
        assert etc.row(c).tolist() == on_machines + on_clusters, job_class.name


def test_two_sites_with_the_same_names_inside_do_not_mix(engine: Engine, tmp_path: Path) -> None:
    other = changed("slow = 30.5", "slow = 44", changed('name = "small"', 'name = "other"'))
    other = changed('names = ["f[1-2]"]', 'names = ["f[1-3]"]', other)
    other = changed("mixed = 77", "mixed = 78", other)
    with Session(engine) as session, session.begin():
        before = sites.load_site(session, "small")
        sites.add_site(session, read(other, tmp_path))
    with Session(engine) as session:
        assert sites.load_site(session, "small") == before == site_of(read(SMALL, tmp_path))
        assert sites.load_site(session, "other") == site_of(read(other, tmp_path))
        assert sites.load_expected_times(session, "small").row(0)[4] == 30.5
        assert sites.load_expected_times(session, "other").row(0)[5] == 44.0
        assert sites.load_expected_times(session, "other").row(2)[-1] == 78.0
        assert sites.load_queues(session, "small") == sites.load_queues(session, "other")


def test_a_second_site_of_one_name_is_refused_and_leaves_nothing_behind(
    engine: Engine, tmp_path: Path
) -> None:
    def rows() -> list[int]:
        with Session(engine) as session:
            tables = Base.metadata.sorted_tables
            return [session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]

    before = rows()
    with (
        pytest.raises(IntegrityError, match=r"UNIQUE constraint failed: site\.name"),
        Session(engine) as session,
        session.begin(),
    ):
        sites.add_site(session, read(SMALL, tmp_path))
    assert rows() == before


@pytest.mark.parametrize("load", [sites.load_site, sites.load_queues, sites.load_expected_times])
def test_an_unknown_site_is_answered_with_the_sites_there_are(load: Any, session: Session) -> None:
    session.add(SiteRow(name="annex"))
    with pytest.raises(UnknownSite) as caught:
        load(session, "smal")
    assert str(caught.value) == "the database has no site 'smal'; it has annex, small"


def test_an_unknown_site_of_an_empty_database_is_answered_with_none(tmp_path: Path) -> None:
    engine = store.create(tmp_path / "empty.sqlite")
    with Session(engine) as session, pytest.raises(UnknownSite) as caught:
        sites.load_site(session, "any")
    engine.dispose()
    assert str(caught.value) == "the database has no site 'any'; it has none"


def test_queues_come_out_in_the_order_of_the_file_whichever_displaces_which(
    engine: Engine, tmp_path: Path
) -> None:
    """The order decides among queues of one priority, and the first gets the jobs that name none."""
    text = changed(
        'displaces = ["night"]', 'displaces = ["closed"]', changed('name = "small"', 'name = "new"')
    )
    with Session(engine) as session:
        sites.add_site(session, read(text, tmp_path))
        session.expunge_all()
        names = [policy.name for policy, _ in sites.load_queues(session, "new")]
    assert names == ["day", "night", "closed"]


# -- any site ---------------------------------------------------------------------------------------------

WORDS = st.text(st.characters(exclude_characters="[]", exclude_categories=("C", "Z")), min_size=1, max_size=4)
SECONDS = st.floats(1e-6, 1e9, allow_subnormal=False)


def some_of(names: Sequence[str], at_least: int = 0) -> st.SearchStrategy[list[str]]:
    if not names:
        return st.just([])
    return st.lists(st.sampled_from(names), unique=True, min_size=at_least, max_size=len(names))


@st.composite
def site_files(draw: st.DrawFn) -> SiteFile:
    def names(prefix: str, at_least: int, at_most: int) -> list[str]:
        words = draw(st.lists(WORDS, unique=True, min_size=at_least, max_size=at_most))
        return [f"{prefix}{word}" for word in words]

    classes, machines = names("k", 1, 3), names("m", 1, 6)
    links, clusters, queues = names("x", 0, 3), names("c", 0, 3), names("q", 0, 3)
    class_of = {name: draw(st.sampled_from(classes)) for name in machines}
    with_machines = sorted(set(class_of.values()))

    def job_class(name: str) -> dict[str, Any]:
        runs_on = draw(
            some_of(classes).map(lambda some: [*some, *(c for c in with_machines[:1] if c not in some)])
        )
        return {
            "name": name,
            "sequential_s": {k: draw(SECONDS) for k in runs_on},
            "parallel_s": {c: draw(SECONDS) for c in draw(some_of(clusters))},
            "preferred": draw(some_of(classes)),
        }

    return SiteFile.model_validate(
        {
            "name": draw(WORDS),
            "machine_classes": [{"name": name} for name in classes],
            "machines": [{"names": [name], "machine_class": class_of[name]} for name in machines],
            "interconnects": [
                {"name": name, "bandwidth_mbit_per_s": draw(SECONDS), "latency_us": draw(SECONDS)}
                for name in links
            ],
            "clusters": [
                {
                    "name": name,
                    "members": draw(some_of(machines, at_least=1)),
                    "interconnects": draw(some_of(links)),
                    "least_share": draw(st.floats(0.01, 1)),
                }
                for name in clusters
            ],
            "job_classes": [job_class(name) for name in names("j", 1, 3)],
            "queues": [
                {
                    "name": name,
                    "priority": draw(st.integers(-(2**31), 2**31 - 1)),
                    "scheduler": draw(st.none() | WORDS),
                    "mapping": draw(st.sampled_from(("commit", "remap"))),
                    "users": draw(st.none() | st.lists(WORDS, unique=True, max_size=3)),
                    "displaces": draw(some_of([other for other in queues if other != name])),
                }
                for name in queues
            ],
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def crowded_database(shared_folder: Path) -> Engine:
    """Has another site already, so that an id is never a position."""
    engine = store.create(shared_folder / "crowded.sqlite")
    with Session(engine) as session, session.begin():
        sites.add_site(session, read(changed('name = "small"', 'name = "first of all"'), shared_folder))
    return engine


@settings(max_examples=50, deadline=None)
@given(file=site_files())
def test_any_site_comes_out_of_the_database_as_it_went_in(file: SiteFile, crowded_database: Engine) -> None:
    assert list(file.problems()) == []
    with Session(crowded_database) as session:
        sites.add_site(session, file)
        session.expunge_all()
        site = sites.load_site(session, file.name)
        queues = sites.load_queues(session, file.name)
        etc = sites.load_expected_times(session, file.name)
    assert site == site_of(file)
    assert queues == [
        (
            QueuePolicy(
                queue.name,
                queue.priority,
                None if queue.users is None else frozenset(queue.users),
                frozenset(queue.displaces),
                MappingPolicy(queue.mapping),
            ),
            queue.scheduler,
        )
        for queue in file.queues
    ]
    assert etc.dense().tolist() == [
        [job_class.sequential_s.get(machine.machine_class, np.inf) for machine in site.machines]
        + [job_class.parallel_s.get(cluster.name, np.inf) for cluster in site.clusters]
        for job_class in file.job_classes
    ]
