"""What accounting does not say of the jobs that are replayed, and what the replay does instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from site_db.jobs.logged import LoggedJob


class Gap(NamedTuple):
    """What is missing of how many jobs, and what the replay has in its place."""

    missing: str
    jobs: int
    instead: str


_OF_EACH: dict[str, tuple[Callable[[LoggedJob], bool], str]] = {
    "time limit": (lambda job: job.time_limit_s is None, "that of the partition, else the run time"),
    "partition": (lambda job: not job.partition, "any node"),
    "account": (lambda job: not job.account, "the user's default account, if the policy has one"),
    "QOS": (lambda job: not job.qos, "the default QOS, if the policy has one"),
    "nodes on which it ran": (lambda job: not job.nodes, "the scheduler's choice"),
    "options of submission (SubmitLine)": (
        lambda job: not job.submit_line,
        "no dependencies, limits of arrays, named nodes and leaf switches",
    ),
}


def gaps(
    jobs: Sequence[LoggedJob],
    begin_s: float,
    order: str,
    drains: Sequence[object],
    reservations: Collection[str],
) -> Iterator[Gap]:
    """The gaps of recorded jobs from which a replay begins at a time, with the drains and reservations that
    are known; `order` says how the replay knows who is served first."""
    there = [job for job in jobs if job.ended_unix_s > begin_s]
    ran = [job for job in there if job.started_unix_s < begin_s]
    waited = sum(job.submitted_unix_s < begin_s for job in there) - len(ran)
    outside = sum(bool(job.reservation) and job.reservation not in reservations for job in there)
    found = [Gap(missing, sum(map(lacks, there)), instead) for missing, (lacks, instead) in _OF_EACH.items()]
    found += [
        Gap("priority at each time, and changes of it by operators", len(there), order),
        Gap("settings, limits and shares of earlier times", len(there), "those of the given files"),
        Gap("power, and use of networks and file systems", len(there), "not modelled"),
        Gap("nodes and times of its reservation (reservations.txt)", outside, "none are kept free for it"),
        Gap("progress of what ran at the beginning", len(ran), "the rest of it, perhaps on other nodes"),
        Gap("age of what waited at the beginning", waited, "submitted at the beginning"),
        Gap("usage before the beginning", len(jobs) - len(there), "none, unless sshare printed it"),
    ]
    if not drains:
        found.append(Gap("times out of service of nodes (events.txt)", len(there), "always in service"))
    yield from (gap for gap in found if gap.jobs)
