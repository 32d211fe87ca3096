"""Versions of the database, and the tables of migrations against those of the code."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text
from sqlalchemy.orm import Session

from site_db import migrations, store
from site_db.history.stored_statistics import disagreements
from site_db.jobs.past import past_jobs
from site_db.schema import Base
from site_db.sites import SiteReader
from site_db.store import DatabaseTrouble, parse_address
from tests.site_db.conftest import STORES
from tests.site_db.site_texts import SMALL, read

SCHEMA_ITEMS = (
    "columns",
    "pk_constraint",
    "foreign_keys",
    "unique_constraints",
    "check_constraints",
    "indexes",
    "table_options",
)


def test_the_latest_migration_makes_the_version_of_the_code() -> None:
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert script.get_current_head() == migrations.HEAD


@pytest.mark.parametrize(
    ("version", "sentence"),
    [
        (
            "0004",
            "the database is of version 0004, from before the first release, and cannot be upgraded; export "
            "its sites with the sil that wrote it, and import them into a new database",
        ),
        ("9999", "the database is of a newer version (9999, not 0006); use the newer version of sil"),
    ],
)
def test_a_database_of_another_version_is_rejected_with_the_remedy(
    version: str, sentence: str, database: Path
) -> None:
    address = parse_address(str(database))
    with store.open_database(address).begin() as connection:
        connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'"))
    for opened in (store.open_database, store.open_to_upgrade):
        with pytest.raises(DatabaseTrouble) as caught:
            opened(address)
        assert str(caught.value) == f"{address}: {sentence}"


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
    migrations.upgrade(migrated)
    migrations.make_tables(new)
    assert schema_of(migrated) == schema_of(new)
    with migrated.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def moved(engine: Engine, move: Any, version: str) -> None:
    """Upgrade or downgrade a database to a version."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    config.set_main_option("path_separator", "os")
    with engine.execution_options(sil_writes=True).begin() as connection:
        config.attributes["connection"] = connection
        move(config, version)


def test_a_downgrade_undoes_what_the_upgrade_from_that_version_does(empty: list[Engine]) -> None:
    engine, new = empty
    migrations.make_tables(new)
    moved(engine, command.upgrade, "0005")
    before = schema_of(engine)
    moved(engine, command.upgrade, "0006")
    assert schema_of(engine) == schema_of(new)
    moved(engine, command.downgrade, "0005")
    assert schema_of(engine) == before
    assert migrations.version_of(engine) == "0005"


def test_a_database_of_version_0005_has_its_sites_and_history_after_the_upgrade(tmp_path: Path) -> None:
    """It was written by the last code of that version."""
    path = tmp_path / "old.sqlite"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "versions" / "v0005.sqlite.gz").read_bytes()))
    address = parse_address(str(path))
    with pytest.raises(DatabaseTrouble, match=r"of an older version \(0005, not 0006\); run: sil db upgrade"):
        store.open_database(address)
    migrations.upgrade(store.open_to_upgrade(address))
    with Session(store.open_database(address)) as session:
        there = SiteReader(session, "small")
        assert there.as_file() == read(SMALL, tmp_path)
        assert disagreements(session, there.site.id) == []
        assert len(past_jobs(session, there.site.id, "small")) == 12


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


def test_upgrading_a_current_database_changes_nothing(engine: Engine) -> None:
    migrations.upgrade(engine)
    assert migrations.version_of(engine) == migrations.HEAD
