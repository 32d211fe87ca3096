"""The tests of fair share find typical faults of its kernel, put into its plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.priority import claims
from scheduler.priority.core import fair_share
from tests.scheduler.priority.test_fair_share import (
    test_a_run_that_ends_between_two_calculations_counts_from_the_next_one_on as of_ends,
)
from tests.scheduler.priority.test_fair_share import (
    test_all_below_a_better_account_come_before_all_below_a_worse_one as of_order,
)
from tests.scheduler.priority.test_fair_share import (
    test_siblings_with_equal_levels_have_equal_factors as of_ties,
)

SOURCE = Path(fair_share.__file__).with_name("fair_share.py")
FAULTS: dict[str, tuple[str, str, Callable[[], None]]] = {
    "usage is not added to the accounts above": ("a = self.parent[a]", "a = NONE", of_ends),
    "what a run used at last is lost": ("self.n_ended = n + 1", "self.n_ended = n", of_ends),
    "a run goes on after its end": ("self.n_running -= 1", "pass", of_ends),
    "ties are ranked": ("if not tied:", "if True:", of_ties),
    "accounts are not sorted": ("return self.level[a] > self.level[b]", "return a < b", of_order),
}


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_a_fault_is_found_and_without_one_the_plain_kernel_passes(
    fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SOURCE.read_text()
    if fault is not None:
        right, wrong, _ = FAULTS[fault]
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    module = ModuleType("kernel")
    exec(compile(text, str(SOURCE), "exec"), module.__dict__)
    monkeypatch.setattr(claims, "FairShare", module.FairShare)
    if fault is None:
        for _, _, check in FAULTS.values():
            check()
        return
    with pytest.raises((AssertionError, IndexError, KeyError)):
        FAULTS[fault][2]()
