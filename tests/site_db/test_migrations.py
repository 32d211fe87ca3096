"""Every earlier version of the database, upgraded; and the tables of migrations against those of the code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.orm import Session

from scheduler.model import Job, JobId
from site_db import migrations, store
from site_db.experience import SqlExperience
from site_db.history.checking import disagreements
from site_db.schema import Base, ExecutionHistoryRow, PredictionRow, UserRow
from site_db.site_file import exchange
from site_db.sites import SiteReader
from site_db.states import current_states
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.postgres import Server
from tests.site_db.site_texts import HCS_2001, SMALL, read

KEPT = Path(__file__).parent / "versions"


@pytest.fixture
def old(tmp_path: Path) -> Address:
    """A database that release 0.1.0 made, with two sites and some history."""
    return parse_address(str(shutil.copy(KEPT / "0.1.0.sqlite", tmp_path)))


@pytest.fixture
def upgraded(old: Address) -> Engine:
    migrations.upgrade(store.open_to_upgrade(old))
    return store.open_database(old)


@pytest.fixture
def upgraded_from_0_2_0(tmp_path: Path) -> Engine:
    """A database that release 0.2.0 made, with two sites, five runs that an experiment taught, and a machine
    that is down."""
    address = parse_address(str(shutil.copy(KEPT / "0.2.0.sqlite", tmp_path)))
    migrations.upgrade(store.open_to_upgrade(address))
    return store.open_database(address)


def test_every_earlier_version_is_kept_for_these_tests() -> None:
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    versions = [revision.revision for revision in script.walk_revisions()]
    assert versions == ["0003", "0002", "0001"]
    assert script.get_current_head() == migrations.HEAD
    assert len(list(KEPT.glob("*.sqlite"))) == len(versions) - 1


def test_a_database_of_an_older_version_is_refused_with_what_to_run(old: Address) -> None:
    with pytest.raises(DatabaseTrouble) as caught:
        store.open_database(old)
    assert str(caught.value) == (
        f"{old}: the database is of an older version (0001, not 0003); run: sil db upgrade --db '{old}'"
    )


def test_a_database_of_a_newer_version_is_refused_with_what_to_use(database: Path) -> None:
    address = parse_address(str(database))
    engine = store.open_database(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        DatabaseTrouble, match="newer version \\(9999, not 0003\\); use the newer version of sil"
    ):
        store.open_to_upgrade(address)


@pytest.mark.parametrize("version", ["upgraded", "upgraded_from_0_2_0"])
def test_an_upgraded_database_has_the_tables_of_a_new_one(
    version: str, database: Path, request: pytest.FixtureRequest
) -> None:
    upgraded: Engine = request.getfixturevalue(version)
    new = store.open_file(database)
    for table in Base.metadata.sorted_tables:
        for look in ("get_columns", "get_foreign_keys", "get_unique_constraints", "get_check_constraints"):
            one, other = (
                sorted(map(str, getattr(inspect(engine), look)(table.name))) for engine in (upgraded, new)
            )
            assert one == other, (table.name, look)
    with upgraded.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_an_upgrade_keeps_sites_queues_times_and_preferences(upgraded: Engine, tmp_path: Path) -> None:
    with Session(upgraded) as session:
        assert SiteReader(session, "small").as_file() == read(SMALL, tmp_path)
        assert SiteReader(session, "hcs-2001").as_file() == exchange.read_site_file(HCS_2001)


def test_an_upgrade_keeps_the_history_and_computes_what_its_statistics_lacked(
    upgraded: Engine, old: Address
) -> None:
    with Session(upgraded) as session:
        for site_id in (1, 2):
            assert disagreements(session, site_id) == []
        row = ExecutionHistoryRow
        history = session.execute(
            select(row.number, UserRow.name, row.queue, row.members, row.run_time_s)
            .join(UserRow, UserRow.id == row.user_id)
            .where(row.site_id == 1)
            .order_by(row.number)
        ).all()
    assert [tuple(one) for one in history] == [
        (1, "ann", "day", None, 20.0),
        (2, "ann", "day", None, 22.0),
        (3, "ann", "day", None, 27.0),
        (4, "ann", "day", None, 31.0),
        (5, "bob", "day", None, 21.0),
        (6, "ann", "night", None, 40.0),
        (7, "ann", "day", 2, 7.0),
        (8, "ann", "day", 2, 7.5),
        (9, "ann", "day", 2, 8.0),
        (10, "bob", "night", 3, 70.0),
        (11, "bob", "night", 3, 80.0),
    ]
    etc = SqlExperience(upgraded, "small").estimate([Job(JobId(0), "short", 0.0)], (2, 3))
    assert etc.row(0).tolist() == pytest.approx([24.2, 24.2, 30.5, 30.5, 30.5, 7.5, 9.0])


def test_an_upgrade_from_0_2_0_keeps_sites_runs_predictions_and_states(
    upgraded_from_0_2_0: Engine, tmp_path: Path
) -> None:
    with Session(upgraded_from_0_2_0) as session:
        assert SiteReader(session, "small").as_file() == read(SMALL, tmp_path)
        assert disagreements(session, 1) == []
        predictions = session.execute(
            select(PredictionRow.quantity, PredictionRow.predicted_s, PredictionRow.predictor)
        ).all()
        assert [tuple(one) for one in predictions] == [
            ("run_time", time_s, "") for time_s in (10.0, 10.0, 10.0, 30.5, 100.0)
        ]
        assert list(current_states(session, SiteReader(session, "small")).down) == ["odd"]


def test_an_upgraded_database_goes_on_recording(upgraded: Engine, old: Address) -> None:
    from scheduler.model import ExecutionRecord

    experience = SqlExperience(upgraded, "small")
    experience.record(ExecutionRecord(Job(JobId(0), "short", 0.0, "new", "day"), 0, 1, 0.0, 20.0))
    with Session(upgraded) as session:
        assert disagreements(session, 1) == []


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(
    old: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old.path is not None
    before = old.path.read_bytes()
    monkeypatch.setattr("site_db.history.statistics.RunStatistics.of", None)
    with pytest.raises(TypeError):
        migrations.upgrade(store.open_to_upgrade(old))
    assert old.path.read_bytes() == before
    with pytest.raises(DatabaseTrouble, match="0001, not 0003"):
        store.open_database(old)


def test_what_is_up_to_date_is_left_as_it_is(engine: Engine) -> None:
    migrations.upgrade(engine)
    assert migrations.version_of(engine) == migrations.HEAD


def test_the_migrations_run_on_postgresql_too(server: Server) -> None:
    address = server.new_database()
    engine = store._engine(address)
    from alembic import command

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(text("INSERT INTO site (name, description) VALUES ('empty', '')"))
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert connection.scalar(text("SELECT name FROM site")) == "empty"
        connection.execute(text("SELECT nextval('site_id_seq')"))
    engine.dispose()
    server.drop(address)
