"""A file journal survives truncation and full disks, and refuses corrupt or unrelated files."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler import UserError
from scheduler.durability.journal import VERSION, JournalEntry
from site_db.journals import HEAD, FileJournal
from tests.site_db.journals.places import entry

N = 2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with N entries."""
    with FileJournal(tmp_path / "journal") as journal:
        for n in range(N):
            journal.append(entry(n))
    return tmp_path / "journal"


def found_in(path: Path) -> list[JournalEntry]:
    with FileJournal(path) as journal:
        return list(journal.entries())


def sentence(path: Path) -> str:
    """What is said of a journal that cannot be opened, and is left as it is."""
    before = path.read_bytes()
    with pytest.raises(UserError) as caught:
        FileJournal(path)
    assert path.read_bytes() == before
    return str(caught.value)


def test_a_journal_cut_off_at_any_byte_has_the_entries_before(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        n = max(0, whole[:size].count(b"\n") - 1)
        with FileJournal(path) as journal:
            assert list(journal.entries()) == [entry(k) for k in range(n)]
            journal.append(entry(n))
        assert found_in(path) == [entry(k) for k in range(n + 1)]


def test_an_incomplete_last_line_may_end_in_zeros(path: Path) -> None:
    """As after a power failure, on file systems that note the size of a file before its content."""
    whole = path.read_bytes()
    path.write_bytes(whole + b"0123" + b"\0" * 5000)
    assert found_in(path) == [entry(n) for n in range(N)]
    assert path.read_bytes() == whole


def test_a_journal_with_any_changed_byte_is_refused_or_has_lost_its_last_line(path: Path) -> None:
    """The end of the last line cannot be told from one that was not written."""
    whole = path.read_bytes()
    for place in range(len(HEAD), len(whole) - 1):
        number = whole[:place].count(b"\n") + 1
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert sentence(path) == (
            f"{path}, line {number}: the journal is damaged, here or by the loss of entries before; restore "
            "it from a copy"
        )
    path.write_bytes(whole[:-1] + b"x")
    assert found_in(path) == [entry(n) for n in range(N - 1)]


@pytest.mark.parametrize("order", [(1,), (1, 0), (0, 0, 1), (0, 1, 1), (0, 1, 0)])
def test_a_journal_with_lines_missing_repeated_or_in_another_order_is_refused(
    order: tuple[int, ...], path: Path
) -> None:
    first, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"".join(lines[k] for k in order))
    assert ": the journal is damaged, here or by the loss of entries before" in sentence(path)


def test_an_entry_of_a_later_version_is_refused_with_its_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.durability.journal.VERSION", VERSION + 1)
    with FileJournal(path) as journal:
        journal.append(entry(N))
    monkeypatch.undo()
    with FileJournal(path) as journal, pytest.raises(UserError) as caught:
        list(journal.entries())
    assert str(caught.value) == (
        f"{path}, line {N + 2}: the journal's entry is of version {VERSION + 1}, and this program reads "
        f"version {VERSION}; use the program that wrote it"
    )


@pytest.mark.parametrize("content", [b"machines = 5\n", b"\0", b"sil journals\n", b"\x1f\x8b" + b"x" * 5000])
def test_another_file_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    assert sentence(path) == f"{path}: this is no journal, which would begin with 'sil journal'"


def test_a_folder_or_a_missing_one_is_refused(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "no" / "journal", "No such file or directory"),
    ):
        with pytest.raises(UserError) as caught:
            FileJournal(path)
        assert str(caught.value) == f"{path}: the journal cannot be opened: {why}"


# -- full disks --------------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(n_bytes: int) -> Iterator[None]:
    """Files of this process cannot become larger, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_an_entry_is_refused_and_the_others_stay(path: Path) -> None:
    size = path.stat().st_size
    with FileJournal(path) as journal:
        with files_of_at_most(size + 40), pytest.raises(UserError) as caught:
            journal.append(entry(N))
        assert str(caught.value) == f"{path}: the journal cannot be written: File too large"
        assert path.stat().st_size == size + 40
        with pytest.raises(UserError, match="takes no entry"):
            journal.append(entry(N))
    assert found_in(path) == [entry(n) for n in range(N)]


def test_a_journal_cannot_be_made_on_a_full_disk_and_can_later(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for size in range(len(HEAD)):
        with files_of_at_most(size), pytest.raises(UserError, match="cannot be opened: File too large"):
            FileJournal(path)
    assert found_in(path) == []


def test_what_a_journal_has_is_on_the_disk_when_it_is_opened_and_after_each_append(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file.fileno()).st_size))
    before = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"incomplete")
    with FileJournal(path) as journal:
        assert synced == [before]
        journal.append(entry(N))
    assert synced == [before, path.stat().st_size]
