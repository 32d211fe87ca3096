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

from site_db import migrations, store
from site_db.history.checking import disagreements
from site_db.schema import Base, ExecutionHistoryRow, PredictionRow
from site_db.sites import SiteReader
from site_db.states import current_states
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.postgres import Server
from tests.site_db.site_texts import SMALL, a_run, read, record

KEPT = Path(__file__).parent / "versions"


@pytest.fixture
def old(tmp_path: Path) -> Address:
    """A database of version 0002 with two sites, five runs of an experiment, and a machine that is down."""
    return parse_address(str(shutil.copy(KEPT / "0002.sqlite", tmp_path)))


@pytest.fixture
def upgraded(old: Address) -> Engine:
    migrations.upgrade(store.open_to_upgrade(old))
    return store.open_database(old)


def test_every_earlier_version_is_kept_for_these_tests() -> None:
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    versions = [revision.revision for revision in script.walk_revisions()]
    assert versions == ["0003", "0002"]
    assert script.get_current_head() == migrations.HEAD
    assert len(list(KEPT.glob("*.sqlite"))) == len(versions) - 1


def test_a_database_of_an_older_version_is_refused_with_what_to_run(old: Address) -> None:
    with pytest.raises(DatabaseTrouble) as caught:
        store.open_database(old)
    assert str(caught.value) == (
        f"{old}: the database is of an older version (0002, not 0003); run: sil db upgrade --db '{old}'"
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


def test_an_upgraded_database_has_the_tables_of_a_new_one(upgraded: Engine, database: Path) -> None:
    new = store.open_file(database)
    for table in Base.metadata.sorted_tables:
        for look in ("get_columns", "get_foreign_keys", "get_unique_constraints", "get_check_constraints"):
            one, other = (
                sorted(map(str, getattr(inspect(engine), look)(table.name))) for engine in (upgraded, new)
            )
            assert one == other, (table.name, look)
    with upgraded.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_an_upgrade_keeps_sites_runs_predictions_and_states(upgraded: Engine, tmp_path: Path) -> None:
    with Session(upgraded) as session:
        assert SiteReader(session, "small").as_file() == read(SMALL, tmp_path)
        assert disagreements(session, 1) == []
        history = session.scalars(select(ExecutionHistoryRow.run_time_s).order_by(ExecutionHistoryRow.number))
        predictions = session.execute(
            select(PredictionRow.quantity, PredictionRow.predicted_s, PredictionRow.predictor)
        ).all()
        assert len(history.all()) == 5
        assert [tuple(one) for one in predictions] == [
            ("run_time", time_s, "") for time_s in (10.0, 10.0, 10.0, 30.5, 100.0)
        ]
        assert list(current_states(session, SiteReader(session, "small")).down) == ["odd"]


def test_an_upgraded_database_continues_recording(upgraded: Engine) -> None:
    with store.changing(upgraded) as session:
        record(session, a_run("f1", 20.0))
        assert disagreements(session, 1) == []
        assert SiteReader(session, "small").site.runs_recorded == 6


def test_an_upgrade_that_fails_leaves_the_database_as_it_was(
    old: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert old.path is not None
    before = old.path.read_bytes()
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    last = script.get_revision(migrations.HEAD).module
    monkeypatch.setattr(last.op, "batch_alter_table", None)
    with pytest.raises(TypeError):
        migrations.upgrade(store.open_to_upgrade(old))
    assert old.path.read_bytes() == before
    with pytest.raises(DatabaseTrouble, match="0002, not 0003"):
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
        command.upgrade(config, "0002")
        connection.execute(
            text(
                "INSERT INTO site (name, description, only_listed_users, runs_recorded, runs_pruned,"
                " snapshot_at, jobs_recorded, version) VALUES ('empty', '', false, 0, 0, 0, 0, 0)"
            )
        )
    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert connection.scalar(text("SELECT name FROM site")) == "empty"
        connection.execute(text("SELECT nextval('site_id_seq')"))
    engine.dispose()
    server.drop(address)
