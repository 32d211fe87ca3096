"""The tests of fair share and of the order of service find typical faults of these kernels, put into their
plain Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from scheduler.priority import claims
from scheduler.priority.core import fair_share, limits, service
from tests.scheduler.priority import test_fair_share as shares
from tests.scheduler.priority import test_service as served

OF_ENDS = shares.test_a_run_that_ends_between_two_calculations_counts_from_the_next_one_on
OF_NODES = served.test_a_node_counts_once_for_a_limit_of_nodes_however_many_run_there
OF_USE = served.test_what_a_run_uses_counts_for_its_association_from_its_begin_to_its_end
OF_WAITS, OF_SUBMITTED = (
    served.test_jobs_wait_for_a_limit_until_runs_have_ended,
    served.test_a_limit_of_submitted_jobs_counts_those_that_wait_and_run_and_lets_none_wait,
)
OF_PRIORITIES = (
    served.test_a_priority_is_the_sum_of_the_factors_within_slurms_bounds_and_a_higher_tier_comes_first
)
OF_PERIODS = served.test_priorities_change_with_each_period_and_with_what_was_used
OF_RUN_MINUTES, OF_MINUTES, OF_SAFETY = (
    served.test_what_runs_have_left_by_their_time_limits_counts_from_calculation_to_calculation,
    served.test_what_was_used_decays_and_lets_jobs_start_until_it_has_reached_its_limit,
    served.test_safely_a_job_starts_only_if_what_runs_and_its_time_limit_will_not_exceed_the_limit,
)
OF_MANY = served.test_more_jobs_and_limits_than_there_is_room_for_at_first_are_kept
Fault = tuple[str, str, Callable[..., None]]
FAULTS: dict[ModuleType, dict[str, Fault]] = {
    fair_share: {
        "usage is not added to the accounts above": ("a = self.parent[a]", "a = NONE", OF_ENDS),
        "what a run used at last is lost": ("self.n_ended = n + 1", "self.n_ended = n", OF_ENDS),
        "a run goes on after its end": ("self.n_running -= 1", "pass", OF_ENDS),
        "ties are ranked": (
            "if not tied:",
            "if True:",
            shares.test_siblings_with_equal_levels_have_equal_factors,
        ),
        "accounts are not sorted": (
            "return self.level[a] > self.level[b]",
            "return a < b",
            shares.test_all_below_a_better_account_come_before_all_below_a_worse_one,
        ),
    },
    limits: {
        "a limit may be exceeded by a job": (
            "return self.used[limit] + more >",
            "return self.used[limit] >",
            OF_WAITS,
        ),
        "a limit cannot be used up": (
            "return self.used[limit] + more > self.most[limit] * (1.0 + ROUNDING)",
            "return self.used[limit] + more >= self.most[limit]",
            served.test_a_limit_may_be_used_up_to_the_last_bit,
        ),
        "a job counts once, whatever it uses": ("sign * self.counted(x, claim) * part", "sign", OF_WAITS),
        "runs count for ever": ("+= sign *", "+= abs(sign) *", OF_WAITS),
        "only the first limit counts": ("if self.exceeds(limit, self.amount[x]):", "if False:", OF_WAITS),
        "limits of submitted jobs let jobs wait": (
            "not self.binds[x] or bounds == NODES or (bounds == SUBMITTED) != of_submitted",
            "not self.binds[x]",
            OF_SUBMITTED,
        ),
        "jobs are not counted when they arrive": (
            "self.claim[slot] = claim\n        self.count(slot, True, 1)",
            "self.claim[slot] = claim",
            OF_SUBMITTED,
        ),
        "a limit binds all that count for it": (
            "not self.binds[x] or bounds == NODES or ",
            "bounds == NODES or ",
            served.test_a_job_that_a_limit_does_not_bind_counts_for_it,
        ),
        "a job counts only where it is bound": (
            "if (bounds == SUBMITTED) == of_submitted:",
            "if self.binds[x] and (bounds == SUBMITTED) == of_submitted:",
            served.test_a_job_that_a_limit_does_not_bind_counts_for_it,
        ),
        "rows of claims are lost": ("self.first_row[self.n_claims] = n + 1", "pass", OF_WAITS),
        "limits of claims are not kept when there are many": (
            "self.limit, self.amount = larger(self.limit, 2 * n), larger(self.amount, 2 * n)",
            "self.limit, self.amount = integers(2 * n), larger(self.amount, 2 * n)",
            OF_MANY,
        ),
        "slots of jobs are not kept when there are many": ("larger(self.claim, n)", "integers(n)", OF_MANY),
        "all minutes of a run are left until its end": ("self.left[slot] -= passed", "pass", OF_RUN_MINUTES),
        "the minutes left are not counted down": ("self.used[limit] -= passed", "passed", OF_RUN_MINUTES),
        "what was used does not decay": ("self.past[limit] *= by", "pass", OF_MINUTES),
        "what is to run is used": ("return bounds != USED and past", "return past", OF_MINUTES),
        "what runs is not safe": ("past + used + more >", "past + more >", OF_SAFETY),
        "a node counts for each run": ("self.used[limit] -= self.on[limit, node] > 0", "pass", OF_NODES),
        "a node is left by the first run that ends": (
            "on[limit, node] += sign",
            "on[limit, node] = sign",
            OF_NODES,
        ),
        "parts of a node are nodes": ("(y == begin or nodes[y] != nodes[y - 1])", "True", OF_NODES),
        "all nodes are new": ("n_new if begin < after else self.amount[x]", "self.amount[x]", OF_NODES),
        "what was used is forgotten": ("self.past[limit] += used", "used", OF_MINUTES),
    },
    service: {
        "submitted jobs count for ever": ("self.limits.count(slot, True, -1)", "pass", OF_SUBMITTED),
        "tiers do not count": ("(self.tier[self.limits.claim[slot]] << 32) +", "", OF_PRIORITIES),
        "age counts beyond its maximum": (
            " / self.max_age_s, 1.0)",
            " / self.max_age_s, 9.0)",
            OF_PRIORITIES,
        ),
        "priorities may be 0": ("self.fixed[claim], 1.0)", "self.fixed[claim], 0.0)", OF_PRIORITIES),
        "priorities may be too large": (", HIGHEST))", ", 1e99))", OF_PRIORITIES),
        "what does not change does not count": ("found + self.fixed[claim]", "found", OF_PRIORITIES),
        "priorities are never calculated again": ("return self.fair.next_s()", "return inf", OF_PERIODS),
        "each call is said to be a calculation": (
            "if self.fair.last_s == self.calculated_s:",
            "if False:",
            OF_PERIODS,
        ),
        "usage has no rate": (
            "self.association[claim], self.rate[claim], now_s",
            "self.association[claim], 1.0, now_s",
            OF_USE,
        ),
        "runs do not end": ("self.fair.ends(slot, now_s)", "pass", OF_USE),
    },
}


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [(kernel, fault) for kernel, faults in FAULTS.items() for fault in (None, *faults)],
    ids=lambda x: x.__name__.rpartition(".")[2] if isinstance(x, ModuleType) else str(x),
)
def test_a_fault_is_found_and_without_one_the_plain_kernel_passes(
    kernel: ModuleType, fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain: dict[str, object] = {}
    for module in (limits, fair_share, service):
        source = Path(module.__file__ or "").with_name(f"{module.__name__.rpartition('.')[2]}.py")
        text = source.read_text()
        if module is kernel and fault is not None:
            right, wrong, _ = FAULTS[kernel][fault]
            assert text.count(right) == 1
            text = text.replace(right, wrong)
        code = ModuleType("kernel")
        exec(compile(text, str(source), "exec"), code.__dict__)
        code.__dict__.update(plain)
        plain |= {
            name: code.__dict__[name] for name in ("LimitUse", "FairShare", "ByPolicy") if name in vars(code)
        }
    for name in ("FairShare", "ByPolicy"):
        monkeypatch.setattr(claims, name, plain[name])
    faults = FAULTS[kernel]
    if fault is None:
        for _, _, check in faults.values():
            _run(check)
        return
    with pytest.raises((AssertionError, IndexError, KeyError, OverflowError)):
        _run(faults[fault][2])


def _run(check: Callable[..., None]) -> None:
    check(3.0) if check is OF_USE else check()
