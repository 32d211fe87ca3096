"""Every earlier version of the database, upgraded; and the tables of migrations against those of the code."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.orm import Session

from site_db import migrations, store
from site_db.history.as_of import disagreements
from site_db.schema import Base, ExecutionHistoryRow, PredictionRow
from site_db.sites import SiteReader
from site_db.states import current_states
from site_db.store import Address, DatabaseTrouble, parse_address
from tests.site_db.conftest import STORES
from tests.site_db.site_texts import SMALL, a_run, read, record

KEPT = Path(__file__).parent / "versions"
SCHEMA_ITEMS = (
    "columns",
    "pk_constraint",
    "foreign_keys",
    "unique_constraints",
    "check_constraints",
    "indexes",
    "table_options",
)


@pytest.fixture(params=["0002", "0003"])
def old(tmp_path: Path, request: pytest.FixtureRequest) -> Address:
    """A database with two sites (of version 0003, a third of time-shared nodes), five runs of an experiment,
    and a machine that is down."""
    return parse_address(str(shutil.copy(KEPT / f"{request.param}.sqlite", tmp_path)))


@pytest.fixture
def upgraded(old: Address) -> Engine:
    migrations.upgrade(store.open_to_upgrade(old))
    return store.open_database(old)


def test_every_earlier_version_is_stored_for_these_tests() -> None:
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    versions = [revision.revision for revision in script.walk_revisions()]
    assert versions == ["0004", "0003", "0002"]
    assert versions[-1] == migrations.OLDEST
    assert script.get_current_head() == migrations.HEAD
    assert len(list(KEPT.glob("*.sqlite"))) == len(versions) - 1


def test_an_older_database_is_rejected_with_the_upgrade_command(old: Address) -> None:
    assert old.path is not None
    with pytest.raises(DatabaseTrouble) as caught:
        store.open_database(old)
    assert str(caught.value) == (
        f"{old}: the database is of an older version ({old.path.stem}, not 0004); run: sil db upgrade "
        f"--db {old}"
    )


def test_a_newer_database_is_rejected_with_the_required_version(database: Path) -> None:
    address = parse_address(str(database))
    engine = store.open_database(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(
        DatabaseTrouble, match="newer version \\(9999, not 0004\\); use the newer version of sil"
    ):
        store.open_to_upgrade(address)


def test_a_database_too_old_to_be_upgraded_is_rejected_with_a_way_to_keep_its_sites(database: Path) -> None:
    address = parse_address(str(database))
    with store.open_database(address).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    for opened in (store.open_database, store.open_to_upgrade):
        with pytest.raises(DatabaseTrouble) as caught:
            opened(address)
        assert str(caught.value) == (
            f"{address}: the database is of version 0001, which this version of sil cannot upgrade; export "
            "its sites with sil 0.2.0 and import them into a new database"
        )


def test_an_upgraded_database_has_the_tables_of_a_new_one(upgraded: Engine, database: Path) -> None:
    assert schema_of(upgraded) == schema_of(store.open_file(database))
    with upgraded.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


@pytest.fixture(params=STORES)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Engine]]:
    """Two databases of one kind without tables."""
    server = None if request.param == "sqlite" else request.getfixturevalue("server")
    addresses = [
        server.new_database() if server else parse_address(str(tmp_path / f"empty-{n}.sqlite"))
        for n in range(2)
    ]
    engines = [store.engine_at(address) for address in addresses]
    yield engines
    for engine, address in zip(engines, addresses, strict=True):
        engine.dispose()
        if server:
            server.drop(address)


def test_the_migrations_create_the_schema_of_the_models(empty: list[Engine]) -> None:
    migrated, new = empty
    migrations.upgrade(migrated, "0002")
    with migrated.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO site (name, description, only_listed_users, runs_recorded, runs_pruned,"
                " snapshot_at, jobs_recorded, version) VALUES ('empty', '', false, 0, 0, 0, 0, 0)"
            )
        )
    migrations.upgrade(migrated)
    migrations.make_tables(new)
    assert schema_of(migrated) == schema_of(new)
    with migrated.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        assert connection.scalar(text("SELECT name FROM site")) == "empty"


def test_the_initial_schema_does_not_depend_on_the_models() -> None:
    source = (Path(migrations.__file__).parent / "versions" / "v0002_initial.py").read_text()
    assert "site_db" not in source


def schema_of(engine: Engine) -> dict[tuple[str, str], list[str]]:
    """All tables with their columns, keys, constraints and indexes, which have the same names."""
    inspector = inspect(engine)
    schema = {}
    for table in {*inspector.get_table_names()} - {"alembic_version"}:
        for what in SCHEMA_ITEMS:
            found = getattr(inspector, f"get_{what}")(table)
            items = found if isinstance(found, list) else [found]
            for item in items:
                item["dialect_options"] = {k: str(v) for k, v in item.get("dialect_options", {}).items()}
            schema[table, what] = sorted(map(str, items))
    return schema


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


def test_a_failed_upgrade_leaves_the_database_unchanged(
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
    with pytest.raises(DatabaseTrouble, match=f"{old.path.stem}, not 0004"):
        store.open_database(old)


def test_upgrading_a_current_database_changes_nothing(engine: Engine) -> None:
    migrations.upgrade(engine)
    assert migrations.version_of(engine) == migrations.HEAD


def test_a_database_with_other_tables_than_its_version_is_not_upgraded(old: Address) -> None:
    assert old.path is not None
    with closing(sqlite3.connect(old.path)) as other:
        other.execute("ALTER TABLE site RENAME COLUMN description TO told")
        other.commit()
    before = old.path.read_bytes()
    with pytest.raises(migrations.UnknownTables, match="the table site lacks the column description after"):
        migrations.upgrade(store.open_to_upgrade(old))
    assert old.path.read_bytes() == before
