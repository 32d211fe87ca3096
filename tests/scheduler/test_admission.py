"""Who may submit what."""

from __future__ import annotations

import pytest

from scheduler.managers.queues import Admission, QueuePolicy, UserPolicy
from scheduler.model import Job, JobId

DAY = QueuePolicy("day", priority=2, users=frozenset({"ann", "bob"}))
NIGHT = QueuePolicy("night")
USERS = [
    UserPolicy("ann", may_submit_as={"bob": frozenset({"night"}), "carl": None}),
    UserPolicy("bob", queues=frozenset({"day"}), most_jobs=2),
    UserPolicy("carl", highest_priority=1),
]


def refusal(
    user: str, queue: str = "night", by: str | None = None, unfinished: int = 0, only_listed: bool = False
) -> str | None:
    job = Job(JobId(1), "work", 0.0, user, queue, submitted_by=by)
    return Admission([DAY, NIGHT], USERS, only_listed).refusal(job, unfinished)


@pytest.mark.parametrize(
    ("user", "queue", "by"),
    [
        ("ann", "day", None),
        ("ann", "day", "ann"),
        ("bob", "day", None),
        ("carl", "night", None),
        ("carl", "night", "ann"),
        ("somebody", "night", None),
    ],
)
def test_a_job_that_no_policy_forbids_is_accepted(user: str, queue: str, by: str | None) -> None:
    assert refusal(user, queue, by) is None


@pytest.mark.parametrize(
    ("user", "queue", "by", "sentence"),
    [
        ("ann", "noon", None, "there is no queue 'noon'"),
        ("carl", "day", None, "user 'carl' may not submit to queue 'day'"),
        ("bob", "night", None, "user 'bob' may not submit to queue 'night'"),
        ("bob", "day", "ann", "user 'ann' may not submit to queue 'day' as 'bob'"),
        ("ann", "night", "bob", "user 'bob' may not submit to queue 'night' as 'ann'"),
        ("ann", "night", "somebody", "user 'somebody' may not submit to queue 'night' as 'ann'"),
    ],
)
def test_a_refusal_names_the_user_and_the_forbidden_action(
    user: str, queue: str, by: str | None, sentence: str
) -> None:
    assert refusal(user, queue, by) == sentence


def test_the_policy_of_the_job_owner_applies_to_jobs_submitted_by_others() -> None:
    """ann may submit to night as bob, but bob's jobs may only be in day."""
    assert refusal("bob", "night", "ann") == "user 'bob' may not submit to queue 'night'"


def test_a_queue_above_the_users_highest_priority_is_refused() -> None:
    open_day = QueuePolicy("day", priority=2)
    admission = Admission([open_day, NIGHT], USERS)
    job = Job(JobId(1), "work", 0.0, "carl", "day")
    assert admission.refusal(job, 0) == ("user 'carl' may submit at priority 1 and below; queue 'day' has 2")


def test_the_limit_of_unfinished_jobs_is_enforced() -> None:
    assert refusal("bob", "day", unfinished=1) is None
    assert refusal("bob", "day", unfinished=2) == ("user 'bob' has 2 unfinished jobs, which is the limit")


@pytest.mark.parametrize(("user", "by"), [("somebody", None), ("carl", "somebody")])
def test_only_listed_users_may_submit_if_the_site_requires_it(user: str, by: str | None) -> None:
    assert refusal(user, by=by, only_listed=True) == "user 'somebody' is not a user of the site"
    assert refusal("carl", only_listed=True) is None
