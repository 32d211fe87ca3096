"""What a job claims under the policy of a site: its priority, its part of shares, the limits it counts for.

Jobs with equal claims are treated alike by the compiled code (`scheduler.priority.core`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.codes import NODES, NONE, NOW, SUBMITTED, TO_RUN, USED, USED_SAFELY, WALL_SAFELY
from scheduler.messages import rounded
from scheduler.model import Job
from scheduler.node_request import Node, Request
from scheduler.priority.core.fair_share import FairShare
from scheduler.priority.core.service import ByPolicy
from scheduler.priority.policy import (
    NORMAL,
    PARENT,
    ROOT,
    Association,
    Multifactor,
    PartitionPolicy,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
)

_WORDS = {"cpu": "Cpu", "mem": "Memory", "node": "Node", "gres/gpu": "GRES", "billing": "Billing"}
_JOB, _SUBMITTED = "job", "submitted job"
"""What limits of numbers of jobs bound: those that run, and those that wait or run."""
_MINUTES, _TO_RUN = " Minutes", " RunMinutes"
"""What limits of TRES-minutes bound, after the name of the TRES."""
_WALL = f"wall{_MINUTES}"
_PER_NODE = " PerNode"
_LONGEST_S = 60.0 * (2**32 - 1)
"""The time limit of a job without one, in Slurm."""
_OF_SUBMITTED = {
    "QOSGrp": "QOSGrpSubmitJobsLimit",
    "QOSMax": "QOSMaxSubmitJobPerUserLimit",
    "Max": "MaxSubmitJobsPerAccount",
    "AssocGrp": "AssocGrpSubmitJobsLimit",
    "AssocMax": "AssocMaxSubmitJobLimit",
}


class Claimant(NamedTuple):
    """Whom a job is charged to, and its quality of service."""

    user: str
    account: str = ""
    qos: str = ""

    @classmethod
    def of(cls, job: Job) -> Claimant:
        return cls(job.user, job.account, job.qos)


class _Row(NamedTuple):
    """A limit: Slurm's reason for jobs that wait for it, whose jobs it bounds (empty: each alone), what, and
    by how much. It `binds` a job unless another one takes its place; the job counts for it in any case. How
    much was `used` before the first job?"""

    reason: str
    whose: str
    what: str
    most: float
    binds: bool
    used: float = 0.0


def _reason(beginning: str, what: str, end: str = "") -> str:
    """Slurm's reason for a limit, like QOSMaxCpuPerUserLimit or AssocGrpCPURunMinutesLimit."""
    if what == _SUBMITTED:
        return _OF_SUBMITTED[beginning]
    if what == _JOB:
        return f"{beginning}Jobs{end}" + ("" if end == "PerAccount" else "Limit")
    if what == _WALL:
        return f"{beginning}WallLimit"
    name, _, minutes = what.partition(" ")
    if what.endswith(_PER_NODE):
        minutes, end = "", "PerNode"
    of_group, of_qos = beginning.endswith("Grp"), not beginning.startswith("Assoc")
    if minutes:
        word = {"mem": "Memory" if of_qos else "Mem", "cpu": "CPU" if of_group else "Cpu"}.get(
            name, _WORDS[name]
        )
        if end in ("PerUser", "PerAccount"):
            return f"Max{word}RunMins{end}"
        return f"{beginning}{word}{minutes}{end}" + ("Limit" if name == "cpu" else "")
    word = "Mem" if name == "mem" and (of_group or not of_qos) else _WORDS[name]
    is_old = name in ("cpu", "node") or (name == "mem" and of_group)
    return f"{beginning}{word}{end}" + ("Limit" if is_old and end not in ("PerAccount", "PerNode") else "")


class Shares:
    """The tree of associations, numbered with accounts before what is below them."""

    def __init__(self, associations: Sequence[Association]) -> None:
        found = [each for each in associations if (each.account, each.user) != (ROOT, "")]
        accounts = {each.account: each for each in found if not each.user}
        depth = {ROOT: 0}

        def depth_of(account: str) -> int:
            if account not in depth:
                depth[account] = 1 + depth_of(accounts[account].parent)
            return depth[account]

        ordered = sorted(found, key=lambda each: (depth_of(each.account), bool(each.user)))
        roots = [each for each in associations if (each.account, each.user) == (ROOT, "")]
        self.all = [*(roots or [Association(ROOT)]), *ordered]
        self.number = {(each.account, each.user): n for n, each in enumerate(self.all)}
        self.parent = [NONE, *(self._parent(each) for each in ordered)]
        self.default_account: dict[str, str] = {}
        for each in associations:  # the first is the default
            if each.user:
                self.default_account.setdefault(each.user, each.account)

    def _parent(self, each: Association) -> int:
        return self.number[(each.account if each.user else each.parent, "")]

    def fair_share(self, how: Multifactor) -> FairShare:
        """The compiled shares."""
        n = len(self.all)
        uses_parent = [0, *(int(each.shares == PARENT) for each in self.all[1:])]
        is_user = [int(bool(each.user)) for each in self.all]
        above = [0] * n
        for a in range(1, n):
            up = self.parent[a]
            while uses_parent[up]:
                up = self.parent[up]
            above[a] = up
        of_level = np.zeros(n)
        for a in range(1, n):
            if not uses_parent[a]:
                of_level[above[a]] += self.all[a].shares
        norm, of_all = np.ones(n), np.ones(n)
        usage = np.zeros(n)
        for a in range(1, n):
            level = of_level[above[a]]
            norm[a] = self.all[a].shares / level if not uses_parent[a] and level else 0.0
            of_all[a] = norm[a] * of_all[above[a]]
        for a in range(n - 1, -1, -1):
            usage[a] += self.all[a].usage
            if a:
                usage[self.parent[a]] += usage[a]
        tree = np.array([self.parent, above, is_user, uses_parent], np.int64).T
        found = FairShare(tree, norm, of_all, usage, how.half_life_s)
        found.is_tree, found.dampening, found.period_s = how.fair_tree, how.dampening, how.period_s
        found.resets_s = np.array(how.resets_s, np.float64)
        return found

    def of(self, who: Claimant) -> int:
        """The association of a job; NONE if it has none."""
        account = who.account or self.default_account.get(who.user, "")
        return self.number.get((account, who.user), NONE) if who.user else NONE

    def up(self, a: int) -> Iterator[Association]:
        """An association and those above it, up to the root; nothing for NONE."""
        while a != NONE:
            yield self.all[a]
            a = self.parent[a]


class _OfRequest(NamedTuple):
    """What depends on the request: amounts of TRES, the time limit if these are of minutes, the weighted
    factors, the partition's name and policy; and the claims with this request so far."""

    tres: Mapping[str, float]
    limit_s: float
    factors: Mapping[str, float]
    within: str
    partition: PartitionPolicy
    claims: dict[Claimant, int | str]


class _OfClaimant(NamedTuple):
    """What depends on who makes the claim: the association, the QOS, why Slurm takes no such job (or empty),
    the weighted factors, how much usage counts, the limits, and the longest time limit of a job, with Slurm's
    reason."""

    association: int
    qos: str
    refusal: str
    factors: Mapping[str, float]
    usage_factor: float
    rows: Sequence[_Row]
    wall: tuple[float, str]


class _Unknown(NamedTuple):
    """What of a job the policy does not have, and which; with Slurm's reason to refuse the job if that is
    enforced, by this word of AccountingStorageEnforce."""

    reason: str
    what: str
    whom: str
    enforced_by: str


class Claims:
    """The claims of jobs on nodes under a policy, numbered as they come."""

    def __init__(self, policy: SitePolicy, nodes: Sequence[Node]) -> None:
        self.policy, self.nodes = policy, nodes
        self.shares = Shares(policy.associations)
        self._how = how = policy.multifactor or Multifactor(period_s=86_400.0)
        age, fair_share = how.weights.age, how.weights.fair_share
        self.service = ByPolicy(self.shares.fair_share(how), age, how.max_age_s, fair_share)
        self.service.limits.on = np.zeros((0, len(nodes)), np.int64)
        bounded = [
            x for each in (*policy.associations, *policy.qualities.values()) for x in vars(each).values()
        ]
        has_minutes = any(isinstance(x, ResourceLimits) and (x.minutes or x.minutes_to_run) for x in bounded)
        self._by_time = how.relative_to_time or (has_minutes and "limits" in policy.enforces)
        self._cpus = sum(node.cores for node in nodes)
        self._max_assoc = max((each.priority for each in policy.associations), default=0)
        self._max_qos = max((each.priority for each in policy.qualities.values()), default=0)
        self._max_partition = max((each.job_factor for each in policy.partitions.values()), default=1)
        self._of_request: dict[Hashable, _OfRequest] = {}
        self._of_claimant: dict[tuple[Claimant, str], _OfClaimant] = {}
        self._limit_of: dict[tuple[str, str], int] = {}
        self._past: dict[tuple[str, str], float] = {}
        self.reasons: list[tuple[str, str]] = []
        """Slurm's reason and whose jobs a limit bounds, by number of the limit."""
        self.where: list[tuple[str, str]] = []
        """The partition and the QOS of the jobs with a claim, by number of the claim."""

    def resume(self, other: Claims) -> None:
        """Go on from what has been used under the same policy."""
        self.service.fair.resume(other.service.fair)
        past = other.service.limits.past
        self._past = {key: float(past[n]) for key, n in other._limit_of.items()}

    def of(self, who: Claimant, request: Request, limit_s: float | None) -> int | str:
        """The number of a job's claim; or the limit that it exceeds alone, so that Slurm never starts it."""
        requested = self._request(request, limit_s)
        if who not in requested.claims:
            requested.claims[who] = self._new(who, requested)
        found = requested.claims[who]
        most_s, reason = self._claimant(who, requested.partition).wall
        if isinstance(found, int) and limit_s is not None and limit_s > most_s:
            return f"{reason}: its time limit of {rounded(limit_s)} s is above {rounded(most_s)} s"
        return found

    def longest_s(self, who: Claimant, partitions: Iterable[str]) -> float:
        """The longest time limit that a job may have, which is that of one that states none."""
        return self._claimant(who, self._best(partitions)[1]).wall[0]

    def _best(self, partitions: Iterable[str]) -> tuple[str, PartitionPolicy]:
        """Of several partitions, the one in which Slurm tries a job first."""
        found = [(name, self.policy.partitions.get(name, PartitionPolicy())) for name in sorted(partitions)]
        none = "", PartitionPolicy()
        return max(found, key=lambda each: (each[1].tier, each[1].job_factor), default=none)

    def factors(self, slot: int, who: Claimant, request: Request, limit_s: float | None) -> dict[str, float]:
        """The weighted factors of the priority of a job that waits in a slot, by name."""
        how, service = self._how.weights, self.service
        requested = self._request(request, limit_s)
        claimant = self._claimant(who, requested.partition)
        return {
            "age": how.age * service.age_factor(slot),
            "fair_share": how.fair_share * service.fair.factor_of(claimant.association),
            **claimant.factors,
            **requested.factors,
        }

    def _request(self, request: Request, limit_s: float | None) -> _OfRequest:
        """The same of equal requests; their time limits count only in sizes by time, and in minutes."""
        key = request.specification, request.chunks, limit_s if self._by_time else None
        if key not in self._of_request:
            self._of_request[key] = self._requested(request, limit_s)
        return self._of_request[key]

    def _new(self, who: Claimant, requested: _OfRequest) -> int | str:
        tres, claimant = requested.tres, self._claimant(who, requested.partition)
        if claimant.refusal:
            return claimant.refusal
        for row in claimant.rows:
            amount = tres.get(row.what, 0.0)
            waits_for_use = row.whose and self._bounds(row) == USED and row.most
            if row.binds and amount > row.most and not waits_for_use:
                if not row.most:
                    return f"{row.reason} is 0{f' for {row.whose}' if row.whose else ''}"
                return f"{row.reason}: it requests {rounded(amount)}, above {rounded(row.most)}"
        fixed = sum((*claimant.factors.values(), *requested.factors.values()))
        rate = tres["billing"] * claimant.usage_factor
        decays = self.policy.multifactor is not None  # otherwise Slurm counts minutes until a run ends
        limits = self.service.limits
        claim = limits.add_claim(claimant.usage_factor, requested.limit_s if decays else inf)
        self.service.describe(claim, claimant.association, fixed, rate, requested.partition.tier)
        self.where.append((requested.within, claimant.qos))
        for row in claimant.rows:
            if row.whose:
                limits.add_row(self._limit(row), tres.get(row.what, 0.0), row.binds)
        return claim

    def refusing(self, claim: int) -> int | None:
        """The limit of submitted jobs that refuses a job which arrives with a claim."""
        self.service.next_claim = claim
        limit = self.service.refusing()
        return None if limit == NONE else limit

    def refusal(self, job: int, limit: int) -> str:
        """Why a limit of submitted jobs refuses a job."""
        reason, whose = self.reasons[limit]
        return f"job {job} is rejected: {reason} of {whose} is {rounded(self.service.limits.most[limit])}"

    def _limit(self, row: _Row) -> int:
        key = row.reason, row.whose
        if key not in self._limit_of:
            self._limit_of[key] = self.service.limits.add(
                row.most, self._bounds(row), self._past.get(key, row.used)
            )
            self.reasons.append(key)
        return self._limit_of[key]

    def _bounds(self, row: _Row) -> int:
        """What the limit of a row bounds, as compiled code has it."""
        if row.what.endswith(_TO_RUN):
            return TO_RUN
        if not row.what.endswith(_MINUTES):
            return {_SUBMITTED: SUBMITTED, "node": NODES}.get(row.what, NOW)
        if "safe" not in self.policy.enforces:
            return USED
        return WALL_SAFELY if row.what == _WALL else USED_SAFELY

    def _normalised(self, value: float, most: float, kind: str) -> float:
        return value if kind in self._how.not_normalised else value / most if most else 0.0

    def _claimant(self, who: Claimant, partition: PartitionPolicy) -> _OfClaimant:
        key = who, partition.qos
        if key not in self._of_claimant:
            self._of_claimant[key] = self._charged(who, partition.qos)
        return self._of_claimant[key]

    def _charged(self, who: Claimant, qos_of_partition: str) -> _OfClaimant:
        invalid = (x for x in self.unknown(who) if x.enforced_by in self.policy.enforces)
        refusal = next((f"{x.reason}: its {x.what} ({x.whom})" for x in invalid), "")
        association, above, who = self._associated(who)
        known, weights = self.policy.qualities, self._how.weights
        quality = known.get(who.qos, QualityOfService(""))
        priority = above[0].priority if above else 0
        factors = {
            "assoc": weights.assoc * self._normalised(priority, self._max_assoc, "assoc"),
            "qos": weights.qos * self._normalised(quality.priority, self._max_qos, "qos"),
        }
        rows, wall = list[_Row](), (inf, "")
        if "limits" in self.policy.enforces:
            names = dict.fromkeys((qos_of_partition, who.qos)[:: -1 if quality.over_partition else 1])
            qualities = [known[name] for name in names if name in known]
            # Slurm looks at numbers of jobs and wall time before it selects nodes, at resources afterwards.
            rows = sorted(_rows(who, qualities, above), key=lambda row: row.what not in (_JOB, _WALL))
            if not quality.usage_factor:  # such jobs use no minutes, and wait for none
                rows = [row for row in rows if not (row.whose and row.what.endswith("Minutes"))]
            for whose, each in _of_one_job(qualities, above):
                if each.wall_s is not None and wall[0] == inf:
                    wall = each.wall_s, f"{whose}MaxWallDurationPerJobLimit"
        return _OfClaimant(association, who.qos, refusal, factors, quality.usage_factor, rows, wall)

    def unknown(self, who: Claimant) -> Iterator[_Unknown]:
        """What the policy does not have of somebody."""
        _, above, who = self._associated(who)
        known, may_use = self.policy.qualities, above[0].qos if above else ()
        if self.policy.associations and not above:
            whom = f"{who.user} in {who.account}" if who.account else who.user
            yield _Unknown("InvalidAccount", "user has no association in the policy", whom, "associations")
        if known and who.qos not in {"", NORMAL, *known}:
            yield _Unknown("InvalidQOS", "QOS is not defined in the policy", who.qos, "qos")
        elif may_use and who.qos not in may_use:
            yield _Unknown("InvalidQOS", "QOS is none of its association", f"{who.qos} of {who.user}", "qos")

    def _associated(self, who: Claimant) -> tuple[int, list[Association], Claimant]:
        """The association of somebody, the same with those above it, and whom Slurm takes the job to be of:
        without an association, of the user's default account, and without a QOS, of the default one."""
        who = Claimant(who.user, who.account.lower(), who.qos.lower())  # as Slurm has their names
        association = self.shares.of(who)
        if association == NONE and "associations" not in self.policy.enforces:
            association = self.shares.of(who._replace(account=""))
        above = [*self.shares.up(association)]
        if not who.qos and above and above[0].qos:
            who = who._replace(qos=above[0].qos[0])
        return association, above, who

    def _requested(self, request: Request, limit_s: float | None) -> _OfRequest:
        """With whole nodes, the CPUs of a mean node that will do."""
        within, partition = self._best(request.partitions)
        n_nodes = request.chunks if request.most_on_node == 1 else 1
        tres: dict[str, float] = {
            "cpu": request.cpus,
            "mem": request.chunks * request.memory_mib,
            "node": n_nodes,
            "gres/gpu": request.n_gpus,
            _JOB: 1.0,
            _SUBMITTED: 1.0,
        }
        if request.exclusive and (there := [node for node in self.nodes if request.may_use(node)]):
            tres["cpu"] = n_nodes * sum(node.cores for node in there) / len(there)
        of_all, weights = self._of_nodes(within), self._how.weights
        for each in (tres, of_all):
            billing = partition.billing or {"cpu": 1.0}
            each["billing"] = sum(weight * each.get(name, 0.0) for name, weight in billing.items())
        job_factor = self._normalised(partition.job_factor, self._max_partition, "part")
        of_tres = sum(
            weight * self._normalised(tres.get(name, 0.0), of_all.get(name, 0.0), "tres")
            for name, weight in weights.tres.items()
        )
        factors = {
            "job_size": weights.job_size * self._size(tres, limit_s),
            "partition": weights.partition * job_factor,
            "tres": of_tres,
        }
        limit_s = max(_LONGEST_S if limit_s is None else limit_s, 60.0)
        on_each = {f"{name}{_PER_NODE}": amount / n_nodes for name, amount in tres.items()}
        for name, amount in {**tres, "wall": 1.0}.items():
            tres[f"{name}{_MINUTES}"] = tres[f"{name}{_TO_RUN}"] = amount * limit_s / 60
        return _OfRequest({**tres, **on_each}, limit_s, factors, within, partition, {})

    def _of_nodes(self, within: str) -> dict[str, float]:
        """The amounts of TRES of the nodes of a partition."""
        nodes = [node for node in self.nodes if not within or within in node.partitions]
        cpus, mib = sum(node.cores for node in nodes), sum(node.memory_mib for node in nodes)
        return {"cpu": cpus, "mem": mib, "node": len(nodes), "gres/gpu": sum(len(x.gpus) for x in nodes)}

    def _size(self, tres: Mapping[str, float], limit_s: float | None) -> float:
        """The factor of job size."""
        n_nodes, cpus = len(self.nodes), self._cpus
        if self._how.relative_to_time:
            minutes = inf if limit_s is None else max(round(limit_s / 60), 1)
            size = max(tres["node"] * cpus / n_nodes, tres["cpu"]) / minutes / cpus
            return min(max(1.0 - size if self._how.favours_small else size, 0.0), 1.0)
        if self._how.favours_small:
            size = (max(n_nodes - tres["node"], 0) / n_nodes + (cpus - tres["cpu"]) / cpus) / 2
        else:
            size = (tres["node"] / n_nodes + tres["cpu"] / cpus) / 2
        return min(max(size, 0.0), 1.0)


def _of_one_job(
    qualities: Sequence[QualityOfService], above: Sequence[Association]
) -> Iterator[tuple[str, ResourceLimits]]:
    """The limits of one job: of several for the same, the first counts."""
    yield from (("QOS", each.job) for each in qualities)
    yield from (("Assoc", each.job) for each in above)


def _rows(
    who: Claimant, qualities: Sequence[QualityOfService], above: Sequence[Association]
) -> Iterator[_Row]:
    """The limits of a job: of several for the same, the first counts: those of the `qualities`, then the
    nearest association's. Those of groups count in each account above, unless a QOS has them."""
    stated: set[tuple[str, str]] = set()
    account = above[0].account if above else who.account
    for quality in qualities:
        of = f"QOS {quality.name}"
        yield from _of(quality.group, "QOSGrp", "", of, stated)
        yield from _of(quality.of_account, "Max", "PerAccount", f"{of} and account {account}", stated)
        yield from _of(quality.of_user, "QOSMax", "PerUser", f"{of} and user {who.user}", stated)
    for each in above:
        used = {f"{name}{_MINUTES}": minutes for name, minutes in each.used.items()}
        for row in _of(each.group, "AssocGrp", "", _named(each), set(stated)):
            yield row._replace(used=used.get(row.what, 0.0))
    for what in (_SUBMITTED, _JOB):  # the nearest limit counts, for each association below it
        numbers = (each.own.submitted if what == _SUBMITTED else each.own.running for each in above)
        most = next((number for number in numbers if number is not None), None)
        if most is not None:
            binds = not stated & {("PerUser", what), ("PerAccount", what)}
            yield _Row(_reason("AssocMax", what), _named(above[0]), what, most, binds)
    for beginning, limits in _of_one_job(qualities, above):
        yield from _of(limits, f"{beginning}Max", "PerJob", "", stated)


def _named(each: Association) -> str:
    return f"user {each.user} in account {each.account}" if each.user else f"account {each.account}"


def _of(
    limits: ResourceLimits, beginning: str, end: str, whose: str, stated: set[tuple[str, str]]
) -> Iterator[_Row]:
    """Limits, which bind unless `stated` has others for the same."""
    of_jobs = {_SUBMITTED: limits.submitted, _JOB: limits.running}
    minutes = ((f"{name}{_MINUTES}", most) for name, most in limits.minutes.items())
    to_run = ((f"{name}{_TO_RUN}", most) for name, most in limits.minutes_to_run.items())
    on_each = ((f"{name}{_PER_NODE}", most) for name, most in limits.per_node.items())
    for what, most in (*of_jobs.items(), *minutes, *limits.tres.items(), *on_each, *to_run):
        if most is not None:
            key = end or "Grp", what
            yield _Row(_reason(beginning, what, end), whose, what, most, key not in stated)
            stated.add(key)
