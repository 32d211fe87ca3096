"""A manager that crashes decides the same, whichever journal it is restored from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.durability.journal import JournalEntry
from sil.swarm.case import Case, SiteKind, drawn
from sil.swarm.faults import Fault
from sil.swarm.simulation import CaseVerdict, verdict_on
from site_db.journals import ChainedJournal, DatabaseJournal, FileJournal
from site_db.store import Address

CRASHES = Fault("crashes", {"between_s": 150.0, "down_s": 60.0})
OPEN: dict[str, Callable[[Path], ChainedJournal]] = {
    "file": FileJournal,
    "sqlite": lambda path: DatabaseJournal(Address.of_file(path)),
}


class OpenedAnew:
    """A journal that is opened anew when it is read, as by the process that follows a crashed one."""

    def __init__(self, open_journal: Callable[[], ChainedJournal]) -> None:
        self._open = open_journal
        self._journal = open_journal()

    def append(self, entry: JournalEntry) -> None:
        self._journal.append(entry)

    def entries(self) -> Iterable[JournalEntry]:
        self.close()
        self._journal = self._open()
        return self._journal.entries()

    def close(self) -> None:
        self._journal.close()


def case_of(seed: int, n_jobs: int) -> Case:
    """A case of a swarm in which the manager crashes, beside other faults."""
    case = drawn(seed, n_jobs=n_jobs)
    return replace(case, faults=(*(fault for fault in case.faults if fault.kind != CRASHES.kind), CRASHES))


def verdict_from(kind: str, case: Case, path: Path) -> CaseVerdict:
    """The facts of a case whose journal is durable, and whether a rule was broken."""
    journal = OpenedAnew(lambda: OPEN[kind](path))
    try:
        return verdict_on(case, journal=journal)
    finally:
        journal.close()


SEEDS = {SiteKind.DIFFERENT: 27, SiteKind.PROCESSORS: 10, SiteKind.NODES: 6}


@pytest.mark.parametrize(
    ("kind", "machines"),
    [("file", SiteKind.DIFFERENT), ("file", SiteKind.NODES), ("sqlite", SiteKind.PROCESSORS)],
)
def test_a_manager_restored_from_a_durable_journal_decides_as_one_restored_from_memory(
    kind: str, machines: SiteKind, tmp_path: Path
) -> None:
    case = case_of(SEEDS[machines], 6)
    assert case.machines is machines
    expected = verdict_on(case)
    assert expected.violation is None
    assert [row[1] for row in expected.facts].count("manager_down") > 1
    assert verdict_from(kind, case, tmp_path / "journal") == expected


@pytest.mark.long
@pytest.mark.parametrize("kind", OPEN)
def test_in_many_cases_the_journal_makes_no_difference(kind: str, tmp_path: Path) -> None:
    for seed in range(30):
        case = case_of(seed, 20)
        assert verdict_from(kind, case, tmp_path / f"journal{seed}") == verdict_on(case), seed
