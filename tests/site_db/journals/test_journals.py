"""What all journals have in common: an entry that was appended is there, whatever happens then."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

import pytest

from scheduler import UserError
from scheduler.durability.journal import BadEntry, Journal, JournalEntry
from sil.world.remote.network import MemoryJournal
from site_db.journals import ChainedJournal
from tests.postgres import Server
from tests.site_db.journals.places import entry, opened

DURABLE = ["file", "sqlite", "postgresql"]


def place_of(kind: str, request: pytest.FixtureRequest) -> str:
    if kind == "postgresql":
        server: Server = request.getfixturevalue("server")
        return server.new_database().url.render_as_string(hide_password=False)
    folder: Path = request.getfixturevalue("tmp_path")
    return str(folder / "journal")


@pytest.fixture(params=["memory", *DURABLE])
def open_journal(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Journal]]:
    """Opens one journal, also again."""
    if request.param == "memory":
        journal = MemoryJournal()
        return lambda: nullcontext(journal)
    place = place_of(request.param, request)
    return lambda: opened(request.param, place)


@pytest.fixture(params=DURABLE)
def open_durable(request: pytest.FixtureRequest) -> Callable[[], ChainedJournal]:
    place = place_of(request.param, request)
    return lambda: opened(request.param, place)


def test_a_new_journal_has_no_entries(open_journal: Callable[[], AbstractContextManager[Journal]]) -> None:
    for _ in range(2):
        with open_journal() as journal:
            assert list(journal.entries()) == []


def test_a_journal_has_its_entries_in_order_and_again_when_it_is_opened_anew(
    open_journal: Callable[[], AbstractContextManager[Journal]],
) -> None:
    for n in range(3):
        with open_journal() as journal:
            assert list(journal.entries()) == [entry(k) for k in range(4 * n)]
            for k in range(4 * n, 4 * n + 4):
                journal.append(entry(k))
            assert list(journal.entries()) == [entry(k) for k in range(4 * n + 4)]


def test_entries_may_be_appended_while_others_are_read(
    open_journal: Callable[[], AbstractContextManager[Journal]],
) -> None:
    with open_journal() as journal:
        for n in range(3):
            journal.append(entry(n))
        found = iter(journal.entries())
        assert next(found) == entry(0)
        journal.append(entry(3))
        assert list(islice(found, 2)) == [entry(1), entry(2)]


def append_to_both(first: ChainedJournal, open_durable: Callable[[], ChainedJournal]) -> None:
    with open_durable() as second:
        first.append(entry(1))
        second.append(entry(7))


def test_of_two_writers_one_is_refused_and_the_other_goes_on(
    open_durable: Callable[[], ChainedJournal],
) -> None:
    with open_durable() as first:
        first.append(entry(0))
        with pytest.raises(UserError, match=r"is open already|another process has appended entry 2"):
            append_to_both(first, open_durable)
        n = len(list(first.entries()))
        first.append(entry(n))
    with open_durable() as journal:
        assert list(journal.entries()) == [entry(k) for k in range(n + 1)]


def test_no_entry_follows_one_that_could_not_be_appended(open_durable: Callable[[], ChainedJournal]) -> None:
    """The manager has done what that entry says, which it would not have done when it is made anew."""
    with open_durable() as journal:
        journal.append(entry(0))
        with pytest.raises(BadEntry):
            journal.append(JournalEntry("on_answer", (object(),), (), ()))
        with pytest.raises(UserError, match="takes no entry"):
            journal.append(entry(1))
    with pytest.raises(UserError, match="takes no entry"):
        journal.append(entry(1))
    with open_durable() as journal:
        assert list(journal.entries()) == [entry(0)]
        journal.append(entry(1))


# -- processes that are killed ------------------------------------------------------------------------------


class Appending:
    """Runs `appending_process`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.site_db.journals.appending_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._said() == "ready"

    def killed(self, kind: str, place: str, after: int, wait_s: float) -> int | None:
        """The number of the last entry that was durable when the process was killed: so long after so many
        others had been."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {place}\n")
        self._process.stdin.flush()
        process, last = int(self._said()), None
        for _ in range(after):
            last = int(self._said())
        try:
            if kind == "file" and last is not None:
                with pytest.raises(
                    UserError, match=": the journal is open already, in this process or another"
                ):
                    opened(kind, place)
            time.sleep(wait_s)
        finally:
            os.kill(process, signal.SIGKILL)
        while (word := self._said()) != "ended":
            last = int(word)
        return last

    def close(self) -> None:
        self._process.communicate()

    def _said(self) -> str:
        assert self._process.stdout is not None
        word = self._process.stdout.readline().strip()
        assert word, "the process has ended by itself"
        return word


@pytest.fixture(scope="module")
def appending() -> Iterator[Appending]:
    process = Appending()
    yield process
    process.close()


def assert_nothing_is_lost(appending: Appending, kind: str, place: str, kills: int) -> None:
    rng = random.Random(kills)
    durable = [0]
    """How many entries there are after each life."""
    for _ in range(kills):
        last = appending.killed(kind, place, rng.randrange(4), rng.uniform(0.0, 0.005))
        with opened(kind, place) as journal:
            found = sum(1 for _ in journal.entries())
        assert found - (durable[-1] if last is None else last + 1) in (0, 1)
        durable.append(found)
    with opened(kind, place) as journal:
        assert all(found == entry(n) for n, found in enumerate(journal.entries()))


@pytest.mark.parametrize("kills", [6, pytest.param(300, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_killed_processes_lose_no_entry_and_until_then_keep_a_file_open_alone(
    kind: str, kills: int, appending: Appending, tmp_path: Path
) -> None:
    assert_nothing_is_lost(appending, kind, str(tmp_path / "journal"), kills)


def test_a_commit_whose_server_has_gone_is_there_or_not(server: Server) -> None:
    place = server.new_database().url.render_as_string(hide_password=False)
    with opened("postgresql", place) as journal:
        journal.append(entry(0))
        with server.being_down(), pytest.raises(UserError):
            journal.append(entry(1))
        with pytest.raises(UserError, match="takes no entry"):
            journal.append(entry(1))
    with opened("postgresql", place) as journal:
        assert list(journal.entries()) == [entry(0)]
        journal.append(entry(1))
