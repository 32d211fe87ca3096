"""An independent small version of Slurm's multifactor priority, fair share and limits: plain Python, no code
of the product, everything counted anew each time.

Written from <https://slurm.schedmd.com/priority_multifactor.html>, <https://slurm.schedmd.com/fair_tree.html>,
<https://slurm.schedmd.com/classic_fair_share.html> and <https://slurm.schedmd.com/resource_limits.html>. What
is per second, like decay, is Slurm's approximation: 0.693 for the natural logarithm of 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isclose
from typing import Any

from tests.scheduler.free_nodes.small_consumable import Run, SmallJob, SmallNode, at, fits, place, remove

Limits = dict[str, float]
"""By what they bound: cpu, node, jobs, submitted, and of one job: cpu, wall."""
NEAR = 1e-9


class Ambiguous(Exception):
    """Two associations are so nearly equal, or a priority so nearly whole, that rounding decides."""


@dataclass
class Quality:
    priority: int = 0
    group: Limits = field(default_factory=dict)
    user: Limits = field(default_factory=dict)
    account: Limits = field(default_factory=dict)
    job: Limits = field(default_factory=dict)
    usage_factor: float = 1.0


@dataclass
class Member:
    """An account, or a user of one; the root has no parent. `shares` of None are those of the account."""

    name: str
    parent: Member | None
    is_user: bool = False
    shares: int | None = 1
    group: Limits = field(default_factory=dict)
    own: Limits = field(default_factory=dict)
    job: Limits = field(default_factory=dict)
    usage: float = 0.0
    effective: float = 1.0
    factor: float = 0.0

    @property
    def accounts(self) -> Iterator[Member]:
        """Itself and what is above it, with the root."""
        one: Member | None = self
        while one is not None:
            yield one
            one = one.parent

    @property
    def above(self) -> Member:
        """The account with whose other members it shares."""
        assert self.parent is not None
        one = self.parent
        while one.parent is not None and one.shares is None:
            one = one.parent
        return one


@dataclass
class Partition:
    nodes: list[int]
    tier: int = 1
    job_factor: int = 1
    quality: str = ""


@dataclass
class Job:
    number: int
    arrival_s: float
    run_s: float
    limit_s: float
    user: str
    member: Member | None
    quality: str
    partition: str
    n_nodes: int
    cores: int
    order: tuple[float, ...] = ()
    start_s: float | None = None
    is_refused: bool = False

    def __post_init__(self) -> None:
        self.request = SmallJob(
            self.n_nodes, self.cores, 0, self.limit_s, partitions=frozenset({self.partition})
        )

    @property
    def cpus(self) -> int:
        return self.n_nodes * self.cores


@dataclass
class Site:
    """Weights by factor: age, fair_share, size, partition, qos."""

    n_nodes: int
    cores: int
    members: list[Member]
    """Accounts before what is in them; the root first."""
    qualities: dict[str, Quality]
    partitions: dict[str, Partition]
    weights: dict[str, float]
    half_life_s: float
    max_age_s: float
    period_s: float
    fair_tree: bool


class SmallSlurm:
    """FCFS or EASY under a policy. `replayed` sets the starts of jobs."""

    def __init__(self, site: Site, jobs: list[Job], backfills: bool) -> None:
        self.site, self.jobs, self.backfills = site, jobs, backfills
        self.decay = 1 - 0.693 / site.half_life_s
        self.calculated_s = 0.0
        self.waiting: list[Job] = []
        self.running: list[Job] = []
        self.ended: list[tuple[Job, float]] = []
        """What jobs used after the last calculation, if they have ended."""
        self.set_effective()
        self.set_factors()

    # Fair share

    def used(self, job: Job, now_s: float) -> float:
        """What a job used since the last calculation. It counts as if all were used then."""
        assert job.start_s is not None
        took_s = now_s - max(job.start_s, self.calculated_s)
        rate = job.cpus * self.site.qualities[job.quality].usage_factor
        return rate * took_s * float(self.decay**took_s)

    @staticmethod
    def add(job: Job, used: float) -> None:
        if job.member is not None:
            for each in job.member.accounts:
                each.usage += used

    def calculate_until(self, now_s: float) -> None:
        while self.calculated_s + self.site.period_s <= now_s:
            for job, used in self.ended:
                self.add(job, used)
            self.ended = []
            self.set_effective()
            for each in self.site.members:
                each.usage *= self.decay**self.site.period_s
            then_s = self.calculated_s + self.site.period_s
            for job in self.running:
                self.add(job, self.used(job, then_s))
            self.calculated_s = then_s
            self.set_factors()

    def norm(self, one: Member) -> float:
        siblings = [each for each in self.site.members[1:] if each.above is one.above]
        total = sum(each.shares or 0 for each in siblings)
        return (one.shares or 0) / total if total else 0.0

    def set_effective(self) -> None:
        """The effective usage of accounts, which Slurm has from before a calculation."""
        for one in self.site.members[1:]:
            if not one.is_user:
                one.effective = self.effective(one)

    def effective(self, one: Member) -> float:
        total = self.site.members[0].usage
        used = one.usage / total if total else 0.0
        return used if one.above.parent is None else used + (one.above.effective - used) * self.norm(one)

    def set_factors(self) -> None:
        if self.site.fair_tree:
            n = sum(each.is_user for each in self.site.members)
            self.n_left = self.rank = n
            self.rank_below(self.site.members[0], False, n)
            return
        for one in self.site.members[1:]:
            if one.is_user:
                of = one.above if one.shares is None else one
                share, each = 1.0, of
                while each.parent is not None:
                    share, each = share * self.norm(each), each.above
                used = self.effective(of) if of.is_user else of.effective
                one.factor = 2 ** -(used / share) if share else 0.0

    def rank_below(self, account: Member, is_tied: bool, n: int) -> None:
        below = [
            each
            for each in self.site.members[1:]
            if each.above is account and (each.is_user or each.shares is not None)
        ]
        level = {}
        for each in below:
            share = self.norm(each)
            if each.shares is None or (share and not each.usage):
                level[id(each)] = float("inf")
            else:
                level[id(each)] = share / (each.usage / account.usage) if share else 0.0
        below.sort(key=lambda each: (-level[id(each)], not each.is_user))
        before = None
        for each in below:
            here = level[id(each)]
            if before is not None and here != before and isclose(here, before, rel_tol=NEAR):
                raise Ambiguous
            ties = here == before if before is not None else is_tied
            if each.is_user:
                if not ties:
                    self.rank = self.n_left
                each.factor = self.rank / n
                self.n_left -= 1
            else:
                self.rank_below(each, ties, n)
            before = here

    # Priorities

    def set_order(self, job: Job) -> None:
        site, within = self.site, self.site.partitions[job.partition]
        age = max(self.calculated_s - job.arrival_s, 0) / site.max_age_s
        factors = {
            "age": min(age, 1.0),
            "fair_share": 0.0 if job.member is None else job.member.factor,
            "size": (job.n_nodes / site.n_nodes + job.cpus / (site.n_nodes * site.cores)) / 2,
            "partition": within.job_factor / max(each.job_factor for each in site.partitions.values()),
            "qos": site.qualities[job.quality].priority
            / (max(each.priority for each in site.qualities.values()) or 1),
        }
        parts = [weight * factors[name] for name, weight in site.weights.items()]
        total = sum(parts)
        if abs(total - round(total)) < 1e-6 and not all(map(float.is_integer, parts)):
            raise Ambiguous  # in another order, the same sum may be less than a whole number
        job.order = (-within.tier, -max(1, int(total)), job.arrival_s, job.number)

    # Limits

    def bounds(self, job: Job) -> Iterator[tuple[str, Any, bool, float]]:
        """What is bounded, whose jobs count, whether this job has to keep to it, and by how much."""
        names = dict.fromkeys((self.site.partitions[job.partition].quality, job.quality))
        stated = set()
        for name in filter(None, names):
            quality = self.site.qualities[name]
            for kind, limits in (
                ("group", quality.group),
                ("user", quality.user),
                ("account", quality.account),
            ):
                for what, most in limits.items():
                    yield what, (kind, name), (kind, what) not in stated, most
                    stated.add((kind, what))
        if job.member is None:
            return
        for one in job.member.accounts:
            for what, most in one.group.items():
                yield what, ("member", id(one)), ("group", what) not in stated, most
        for what in ("jobs", "submitted"):
            found = [one.own[what] for one in job.member.accounts if what in one.own]
            if found:
                binds = not {("user", what), ("account", what)} & stated
                yield what, ("member", id(job.member)), binds, found[0]

    def counts_for(self, other: Job, job: Job, whose: tuple[str, Any]) -> bool:
        """Whether another job counts for a limit of this one."""
        kind, which = whose
        if kind == "member":
            return other.member is not None and which in [id(one) for one in other.member.accounts]
        if which not in (other.quality, self.site.partitions[other.partition].quality):
            return False
        accounts = [
            one.member.parent.name if one.member and one.member.parent else "" for one in (other, job)
        ]
        return kind == "group" or (other.user == job.user if kind == "user" else accounts[0] == accounts[1])

    def nodes_of(self, job: Job, whose: tuple[str, Any]) -> set[int]:
        """The nodes on which jobs run that count for a limit of this one."""
        counted = (each for each in self.running if self.counts_for(each, job, whose))
        return {n for each in counted for n, _ in each.request.held}

    def first_nodes(self, job: Job) -> list[int]:
        """All nodes, with those first that count already for a limit of a job."""
        bounds = [whose for what, whose, binds, _ in self.bounds(job) if what == "node" and binds]
        there = {n for whose in bounds for n in self.nodes_of(job, whose)}
        return sorted(range(self.site.n_nodes), key=lambda n: (n not in there, n))

    def exceeds_nodes(self, job: Job) -> bool:
        """Whether a job exceeds a limit of nodes where it is placed, or on other nodes than those that
        count."""
        mine = {n for n, _ in job.request.held} or {-1 - n for n in range(job.n_nodes)}
        return any(
            what == "node" and binds and len(self.nodes_of(job, whose) | mine) > most
            for what, whose, binds, most in self.bounds(job)
        )

    def exceeded(self, job: Job, others: list[Job], submitted: bool) -> bool:
        """Whether a job would exceed a limit, but for those of nodes, if these others count."""
        for what, whose, binds, most in self.bounds(job):
            if not binds or what == "node" or (what == "submitted") != submitted:
                continue
            counted = [each for each in (*others, job) if self.counts_for(each, job, whose)]
            if (sum(each.cpus for each in counted) if what == "cpu" else len(counted)) > most:
                return True
        return False

    def refuses(self, job: Job) -> bool:
        """Whether a job may never start, or too many have been submitted."""
        names = filter(None, (self.site.partitions[job.partition].quality, job.quality))
        limits: Limits = {}
        for each in (
            *(self.site.qualities[name].job for name in names),
            *(one.job for one in (() if job.member is None else job.member.accounts)),
        ):
            limits = {**each, **limits}
        is_large = job.cpus > limits.get("cpu", job.cpus) or job.limit_s > limits.get("wall", job.limit_s)
        return (
            is_large
            or self.exceeded(job, [], False)
            or any(
                what == "node" and binds and job.n_nodes > most for what, _, binds, most in self.bounds(job)
            )
            or self.exceeded(job, [*self.waiting, *self.running], True)
        )

    # Time

    def replay(self) -> None:
        site, arriving = self.site, sorted(self.jobs, key=lambda job: (job.arrival_s, job.number))
        empty = [
            SmallNode(
                site.cores, 0, [], frozenset(x for x, each in site.partitions.items() if n in each.nodes)
            )
            for n in range(site.n_nodes)
        ]
        nodes = at(0, empty, empty, [])
        while arriving or self.running or self.waiting:
            times = [job.start_s + job.run_s for job in self.running if job.start_s is not None]
            times += [job.arrival_s for job in arriving[:1]]
            times += [self.calculated_s + site.period_s] if self.waiting else []
            now_s = min(times)
            self.calculate_until(now_s)
            something_happens = now_s == self.calculated_s
            for job in [job for job in self.running if (job.start_s or 0) + job.run_s == now_s]:
                something_happens = True
                self.ended.append((job, self.used(job, now_s)))
                self.running.remove(job)
                remove(nodes, empty, job.request)
            while arriving and arriving[0].arrival_s == now_s:
                job = arriving.pop(0)
                job.is_refused = self.refuses(job)
                if not job.is_refused:
                    something_happens = True
                    self.waiting.append(job)
            if something_happens:
                self.one_pass(nodes, empty, now_s)

    def one_pass(self, nodes: list[SmallNode], empty: list[SmallNode], now_s: float) -> None:
        for job in self.waiting:
            self.set_order(job)
        first, shadow_s = None, 0.0
        for job in sorted(self.waiting, key=lambda job: job.order):
            if self.exceeded(job, self.running, False):
                continue
            runs = [((each.start_s or 0) + each.limit_s, each.request) for each in self.running]
            before = at(now_s, nodes, empty, [])
            if place(nodes, job.request, self.first_nodes(job)):
                if self.exceeds_nodes(job):
                    nodes[:], job.request.held = before, []
                    continue
                mine: Run = (now_s + job.limit_s, job.request)
                if first is None or fits(at(shadow_s, nodes, empty, [*runs, mine]), first.request):
                    job.start_s = now_s
                    self.waiting.remove(job)
                    self.running.append(job)
                    continue
                nodes[:], job.request.held = before, []
            elif first is None and not self.exceeds_nodes(job):
                if not self.backfills:
                    return
                first = job
                shadow_s = min(
                    t for t in {now_s, *(t for t, _ in runs)} if fits(at(t, nodes, empty, runs), job.request)
                )
