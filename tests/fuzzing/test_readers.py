"""Mutated inputs are read or refused with a sentence: no traceback, no hang, bounded memory."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scheduler import UserError
from sil.world.guard.faults import SchedulerFault
from site_db.files.access import VARIABLE
from tests.fuzzing.mutations import mutated
from tests.fuzzing.readers import READERS, Reader

SHORT, LONG = 20, 4_000
"""Inputs for each reader; with 25 readers, the long test has 100,000."""
MAX_S = 5
"""Seconds of CPU time for one input."""
MAX_GROWTH_KIB = 600_000
"""Memory that the process may take in addition while it reads."""


class Hangs(Exception):
    """Reading took too long."""


@contextmanager
def limited() -> Iterator[None]:
    def end(number: int, frame: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, MAX_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def assert_read_or_refused(reader: Reader, numbers: Iterable[int], folder: Path) -> None:
    """A failing input stays in the folder, and its number makes it again."""
    seeds = reader.seeds()
    before = None
    for number in numbers:
        path = folder / reader.file
        path.write_bytes(mutated(seeds, number, reader.may_be_compressed))
        try:
            with limited():
                reader.read(path)
        except (UserError, SchedulerFault):
            pass
        except BaseException as error:
            pytest.fail(f"input {number}: {type(error).__name__}: {str(error)[:200]}")
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        before = before or now  # after the first, which may load modules
        assert now - before < MAX_GROWTH_KIB, f"input {number} took {now - before:,} KiB"


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "100")


@pytest.mark.parametrize("name", READERS)
def test_some_mutated_inputs_are_read_or_refused(name: str, tmp_path: Path) -> None:
    assert_read_or_refused(READERS[name], range(SHORT), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(4), ids=lambda part: f"part{part}")
@pytest.mark.parametrize("name", READERS)
def test_many_mutated_inputs_are_read_or_refused(name: str, part: int, tmp_path: Path) -> None:
    """100,000 inputs over all readers."""
    first = SHORT + part * LONG // 4
    assert_read_or_refused(READERS[name], range(first, first + LONG // 4), tmp_path)


def test_there_is_a_valid_input_for_every_reader(tmp_path: Path) -> None:
    """Otherwise no mutation would come far."""
    for name, reader in READERS.items():
        accepted = 0
        for seed in reader.seeds():
            (tmp_path / reader.file).write_bytes(seed)
            try:
                reader.read(tmp_path / reader.file)
                accepted += 1
            except UserError:
                pass
        assert accepted, name
