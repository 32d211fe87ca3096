"""A limit of each kind, with Slurm's reason, and which of several counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from scheduler.node_request import Node, Request
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import (
    Association,
    Multifactor,
    PartitionPolicy,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
    Weights,
)

NODES = [Node(cores=16, memory_mib=65_536, partitions=frozenset({"p"}))] * 4
JOB = Request(chunks=1, cores=4, memory_mib=1_000, partitions=frozenset({"p"}))
ANN = Claimant("ann", "a", "q")


def claims(
    job_qos: Any = None,
    partition_qos: Any = None,
    accounts: Any = None,
    users: Any = None,
    enforces: tuple[str, ...] = ("limits",),
) -> Claims:
    """Users ann and bob are in account a, which is in account b."""
    qualities: Any = {
        "q": QualityOfService("q", **(job_qos or {})),
        "of p": QualityOfService("of p", **(partition_qos or {})),
    }
    tree: Any = (
        Association("b", **(accounts or {})),
        Association("a", parent="b"),
        *(Association("a", name, "a", **(users or {})) for name in ("ann", "bob")),
    )
    partitions = {"p": PartitionPolicy(qos="of p")}
    return Claims(SitePolicy(None, tree, qualities, partitions, enforces), NODES)


def reason(site: Claims, *who: Claimant) -> str | None:
    """Slurm's reason why the last one's job waits while those of the others run."""
    used: Counter[int] = Counter()
    for each in who:
        found = site.of(each, JOB, 3_600.0)
        if isinstance(found, str):
            return found.partition(":")[0]
        rows = site.service.limits.table(found)
        more = [(limit, used[limit] + amount) for limit, amount, _, binds in rows if binds]
        reached = [limit for limit, amount in more if site.service.limits.exceeds(limit, amount)]
        used.update({limit: int(counted) for limit, _, counted, _ in rows})
    return site.reasons[reached[0]][0] if reached else None


CPUS, JOBS, MEMORY = ResourceLimits({"cpu": 6}), ResourceLimits(running=1), ResourceLimits({"mem": 1_500})
NOT_ONE, SHORT = ResourceLimits({"cpu": 3}), ResourceLimits(wall_s=1_800.0)
TO_RUN = ResourceLimits(minutes_to_run={"cpu": 479})  # the job has 240 minutes of CPUs


def minutes(name: str, most: float) -> ResourceLimits:
    return ResourceLimits(minutes={name: most})


@pytest.mark.parametrize(
    ("of", "what", "limits", "expected"),
    [
        ("job_qos", "group", CPUS, "QOSGrpCpuLimit"),
        ("job_qos", "group", JOBS, "QOSGrpJobsLimit"),
        ("job_qos", "group", MEMORY, "QOSGrpMemLimit"),
        ("job_qos", "of_user", CPUS, "QOSMaxCpuPerUserLimit"),
        ("job_qos", "of_user", JOBS, "QOSMaxJobsPerUserLimit"),
        ("job_qos", "of_user", MEMORY, "QOSMaxMemoryPerUser"),
        ("job_qos", "of_account", CPUS, "MaxCpuPerAccount"),
        ("job_qos", "of_account", JOBS, "MaxJobsPerAccount"),
        ("job_qos", "of_account", MEMORY, "MaxMemoryPerAccount"),
        ("job_qos", "job", NOT_ONE, "QOSMaxCpuPerJobLimit"),
        ("job_qos", "job", SHORT, "QOSMaxWallDurationPerJobLimit"),
        ("accounts", "group", CPUS, "AssocGrpCpuLimit"),
        ("accounts", "group", JOBS, "AssocGrpJobsLimit"),
        ("accounts", "group", MEMORY, "AssocGrpMemLimit"),
        ("accounts", "own", JOBS, "AssocMaxJobsLimit"),
        ("users", "job", NOT_ONE, "AssocMaxCpuPerJobLimit"),
        ("users", "job", SHORT, "AssocMaxWallDurationPerJobLimit"),
        ("job_qos", "group", TO_RUN, "QOSGrpCPURunMinutesLimit"),
        ("job_qos", "of_user", TO_RUN, "MaxCpuRunMinsPerUser"),
        ("job_qos", "of_account", TO_RUN, "MaxCpuRunMinsPerAccount"),
        ("accounts", "group", TO_RUN, "AssocGrpCPURunMinutesLimit"),
        ("accounts", "group", ResourceLimits(minutes_to_run={"mem": 119_000}), "AssocGrpMemRunMinutes"),
        ("job_qos", "group", minutes("mem", 0), "QOSGrpMemoryMinutes is 0 for QOS q"),
        ("accounts", "group", minutes("billing", 0), "AssocGrpBillingMinutes is 0 for account b"),
        ("accounts", "group", minutes("wall", 0), "AssocGrpWallLimit is 0 for account b"),
        ("job_qos", "job", minutes("cpu", 239), "QOSMaxCpuMinutesPerJobLimit"),
        ("job_qos", "job", ResourceLimits(per_node={"cpu": 1}), "QOSMaxCpuPerNode"),
        ("users", "job", ResourceLimits(per_node={"mem": 400}), "AssocMaxMemPerNode"),
        ("job_qos", "job", minutes("mem", 59_000), "QOSMaxMemoryMinutesPerJob"),
        ("users", "job", minutes("node", 59), "AssocMaxNodeMinutesPerJob"),
    ],
)
def test_each_limit_has_slurms_reason_and_counts_only_if_limits_are_enforced(
    of: str, what: str, limits: ResourceLimits, expected: str
) -> None:
    policy: Any = {of: {what: limits}}
    assert reason(claims(**policy), ANN, ANN) == expected
    assert reason(claims(**policy, enforces=("associations",)), ANN, ANN) is None


@pytest.mark.parametrize(("what", "waits"), [("of_user", None), ("of_account", "MaxJobsPerAccount")])
def test_limits_of_a_user_leave_others_alone_and_those_of_an_account_do_not(
    what: str, waits: str | None
) -> None:
    bob_by_default = Claimant("bob", "", "q")
    assert reason(claims({what: JOBS}), ANN, bob_by_default) == waits


MANY = ResourceLimits({"cpu": 100}, running=100, wall_s=1e9)


@pytest.mark.parametrize("what", ["group", "of_user", "of_account"])
def test_the_partitions_qos_overrides_the_jobs(what: str) -> None:
    assert reason(claims({what: JOBS}, {what: MANY}), ANN, ANN) is None
    assert reason(claims({what: MANY}, {what: JOBS}), ANN, ANN) is not None


@pytest.mark.parametrize("what", ["group", "of_user", "of_account"])
def test_with_its_flag_the_jobs_qos_overrides_the_partitions(what: str) -> None:
    assert reason(claims({what: MANY, "over_partition": True}, {what: JOBS}), ANN, ANN) is None
    assert reason(claims({what: JOBS, "over_partition": True}, {what: MANY}), ANN, ANN) is not None


def test_a_qos_overrides_associations_and_these_the_accounts_above() -> None:
    assert reason(claims({"group": MANY}, accounts={"group": JOBS}), ANN, ANN) is None
    assert reason(claims({"job": MANY}, users={"job": NOT_ONE}), ANN) is None
    assert reason(claims({"job": MANY}, users={"job": SHORT}), ANN) is None
    for of in ("of_user", "of_account"):
        assert reason(claims({of: MANY}, users={"own": JOBS}), ANN, ANN) is None
    for what, limits in (("own", JOBS), ("job", NOT_ONE), ("job", SHORT)):
        assert reason(claims(users={what: MANY}, accounts={what: limits}), ANN, ANN) is None
    both = claims(users={"group": MANY}, accounts={"group": JOBS})
    assert reason(both, ANN, ANN) == "AssocGrpJobsLimit"  # limits of groups are all counted


def test_of_several_limits_that_are_reached_those_of_jobs_are_named_first_as_slurm_looks_at_them() -> None:
    both = ResourceLimits({"cpu": 6}, running=1)
    assert reason(claims({"group": both}), ANN, ANN) == "QOSGrpJobsLimit"
    assert reason(claims({"group": CPUS, "of_user": JOBS}), ANN, ANN) == "QOSMaxJobsPerUserLimit"
    assert reason(claims({"group": CPUS}, users={"own": JOBS}), ANN, ANN) == "AssocMaxJobsLimit"
    assert reason(claims({"of_user": CPUS}, accounts={"group": JOBS}), ANN, ANN) == "AssocGrpJobsLimit"


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ({"users": {"own": ResourceLimits(running=0)}}, "AssocMaxJobsLimit is 0 for user ann in account a"),
        ({"job_qos": {"group": ResourceLimits({"cpu": 0})}}, "QOSGrpCpuLimit is 0 for QOS q"),
        ({"job_qos": {"job": ResourceLimits({"cpu": 0})}}, "QOSMaxCpuPerJobLimit is 0"),
        (
            {"users": {"job": ResourceLimits(wall_s=0)}},
            "AssocMaxWallDurationPerJobLimit: its time limit of 3,600 s is above 0 s",
        ),
    ],
)
def test_of_a_limit_of_0_it_is_said_that_no_job_starts(policy: Any, sentence: str) -> None:
    assert claims(**policy).of(ANN, JOB, 3_600.0) == sentence


def factors(policy: SitePolicy, request: Request, limit_s: float | None = None) -> dict[str, float]:
    site = Claims(policy, NODES)
    return site.factors(0, ANN, request, limit_s)


def test_the_example_of_partitions() -> None:
    partitions = {"p": PartitionPolicy(job_factor=10), "other": PartitionPolicy(job_factor=20)}
    for not_normalised, expected in (((), 2_500), (("part",), 50_000)):
        how = Multifactor(Weights(partition=5_000), not_normalised=not_normalised)
        assert factors(SitePolicy(how, partitions=partitions), JOB)["partition"] == expected


@pytest.mark.parametrize(("cpus", "gib", "expected"), [(1, 60, 16), (16, 1, 16.25), (16, 60, 31)])
def test_the_example_of_billing(cpus: int, gib: int, expected: float) -> None:
    partition = PartitionPolicy(billing={"cpu": 1.0, "mem": 0.25 / 1_024})
    site = Claims(SitePolicy(Multifactor(), partitions={"p": partition}), NODES)
    claim: Any = site.of(ANN, Request(1, cpus, gib * 1_024, partitions=frozenset({"p"})), None)
    assert site.service.rate[claim] == expected


def test_billing_is_compared_with_that_of_all_nodes_of_the_partition() -> None:
    nodes = [*NODES, Node(cores=99, memory_mib=1, partitions=frozenset({"other"}))]
    partition = PartitionPolicy(billing={"cpu": 1.0, "mem": 0.25 / 1_024, "node": 2.0, "gres/gpu": 9.0})
    how = Multifactor(Weights(tres={"billing": 1_000.0}))
    found = Claims(SitePolicy(how, partitions={"p": partition}), nodes).factors(0, ANN, JOB, None)
    of_job, of_all = 4 + 0.25 * 1_000 / 1_024 + 2, 4 * (16 + 0.25 * 64 + 2)
    assert found["tres"] == pytest.approx(1_000 * of_job / of_all, rel=1e-12)


def test_of_several_partitions_the_best_counts() -> None:
    both = Request(1, 4, 0, partitions=frozenset({"a", "b", "c"}))
    partitions = {"a": PartitionPolicy(1, 9), "b": PartitionPolicy(2, 3), "c": PartitionPolicy(2, 7)}
    how = Multifactor(Weights(partition=900))
    site = Claims(SitePolicy(how, partitions=partitions), NODES)
    claim: Any = site.of(ANN, both, None)
    assert site.service.tier[claim] == 2
    assert site.factors(0, ANN, both, None)["partition"] == 700


def test_without_an_association_the_users_default_account_counts_unless_associations_are_enforced() -> None:
    other = ANN._replace(account="elsewhere")
    assert reason(claims(users={"own": JOBS}), other, ANN) == "AssocMaxJobsLimit"
    assert reason(claims(enforces=("associations",)), other) == "InvalidAccount"


def test_the_size_of_a_job_with_all_nodes_is_one_and_relative_to_time_in_one_minute() -> None:
    whole = Request(4, 16, 0)
    assert factors(SitePolicy(Multifactor(Weights(job_size=1_000))), whole)["job_size"] == 1_000
    relative = SitePolicy(Multifactor(Weights(job_size=1_000), relative_to_time=True))
    found = [factors(relative, whole, limit_s)["job_size"] for limit_s in (60.0, 600.0, None)]
    assert found == [1_000, 100, 0]


def test_names_of_accounts_and_qos_are_compared_as_slurm_has_them_in_small_letters() -> None:
    site = claims({"group": JOBS}, accounts={"group": CPUS})
    assert reason(site, ANN, ANN._replace(qos="Q")) == "QOSGrpJobsLimit"
    assert reason(site, ANN._replace(account="A", qos=""), ANN._replace(account="A", qos="")) == (
        "AssocGrpCpuLimit"
    )


def test_a_job_that_names_no_qos_has_the_default_one_of_its_association() -> None:
    site = claims({"group": JOBS}, users={"qos": ("q", "of p")})
    assert reason(site, ANN, ANN._replace(qos="")) == "QOSGrpJobsLimit"
