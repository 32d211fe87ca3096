"""Slurm's controller and our nodes agree on cores, memory and GPUs, job by job."""

from __future__ import annotations

import pytest

from tests.sil.slurm.agreement import EXPLAINED, Compared, agreement
from tests.sil.slurm.installed import needs_slurm

pytestmark = [needs_slurm, pytest.mark.usefixtures("in_this_process")]


def assert_agrees(found: Compared) -> None:
    """Every difference is explained, and few jobs are not compared; what Slurm places breaks no invariant."""
    assert found.share >= 0.95, str(found)
    assert all(why.endswith(EXPLAINED) for why in (*found.differ, *found.excluded)), str(found)
    assert found.excluded.total() <= 0.05 * found.n, str(found)


def test_our_nodes_have_room_when_slurm_starts_a_job() -> None:
    *_, found = agreement(1, 60, seed=3)
    assert found.n + found.excluded.total() == 60
    assert_agrees(found)


@pytest.mark.long
def test_2_000_random_jobs_start_when_our_nodes_have_room() -> None:
    *_, found = agreement(20, 100, seed=1)
    assert found.n + found.excluded.total() == 2_000
    assert_agrees(found)
