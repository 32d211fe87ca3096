from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from site_db import sites, store
from site_db.schema import SiteRow
from tests.site_db.site_texts import SMALL, read


def test_a_new_database_replaces_the_one_that_is_there(database: Path) -> None:
    engine = store.create(database)
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(SiteRow)) == 0
    engine.dispose()


@pytest.mark.parametrize("name", ["a?b=c", "a#b", "a%20b", "a b", "ü", "sqlite:"])
def test_a_database_is_made_and_copied_wherever_its_folder_is(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / "site.sqlite"
    engine = store.create(path)
    with Session(engine) as session, session.begin():
        sites.add_site(session, read(SMALL, tmp_path))
    engine.dispose()
    assert [file.name for file in folder.iterdir()] == ["site.sqlite"]
    assert [folder.name for folder in tmp_path.iterdir() if folder.is_dir()] == [name]
    for engine in (store.open_file(path), store.private_copy(path)):
        with Session(engine) as session:
            assert sites.load_site(session, "small").n_machines == 5
        engine.dispose()


def test_what_is_written_to_a_private_copy_leaves_the_file_and_other_copies_as_they_are(
    database: Path,
) -> None:
    before = database.read_bytes()
    one, another = store.private_copy(database), store.private_copy(database)
    with Session(one) as session, session.begin():
        session.add(SiteRow(name="annex"))
    with Session(one) as session:
        assert session.scalars(select(SiteRow.name).order_by(SiteRow.id)).all() == ["small", "annex"]
    with Session(another) as session:
        assert session.scalars(select(SiteRow.name)).all() == ["small"]
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.glob("*.sqlite*")] == [database.name]


def test_what_is_written_to_the_file_later_does_not_reach_a_private_copy(database: Path) -> None:
    copy, original = store.private_copy(database), store.open_file(database)
    with Session(original) as session, session.begin():
        session.add(SiteRow(name="annex"))
    original.dispose()
    with Session(copy) as session:
        assert session.scalars(select(SiteRow.name)).all() == ["small"]


def test_a_private_copy_can_be_made_of_a_relative_path(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(database.parent)
    with Session(store.private_copy(Path(database.name))) as session:
        assert session.scalars(select(SiteRow.name)).all() == ["small"]


def test_foreign_keys_are_on_in_a_private_copy(database: Path) -> None:
    with store.private_copy(database).connect() as connection:
        assert connection.scalar(text("PRAGMA foreign_keys")) == 1


def test_no_file_comes_into_being_where_there_is_none_to_copy(tmp_path: Path) -> None:
    path = tmp_path / "nowhere.sqlite"
    with pytest.raises(sqlite3.OperationalError):
        store.private_copy(path)
    assert not path.exists()
