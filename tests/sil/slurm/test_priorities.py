"""Priorities under a policy are those of which Slurm's controller says, with `sprio`, that it uses them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from scheduler.priority.claims import Claimant, Claims
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.naming import ASSOCIATIONS, QOS
from sil.slurm.queries import EVERY_S, FIRST_S, STATEMENTS, ControllerReport
from sil.trace.facts import TRACE, Fact
from sil.trace.reading import read_facts
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.sil.slurm.installed import needs_slurm

pytestmark = [needs_slurm, pytest.mark.skipif(shutil.which("mariadbd") is None, reason="without MariaDB")]
CPUS, N_NODES, BEGAN_S = 8, 4, 1_772_442_000
CONF = f"""ClusterName=c
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-{N_NODES}] CPUs={CPUS}
PartitionName=low Nodes=ALL Default=YES PriorityJobFactor=1
PartitionName=high Nodes=ALL PriorityJobFactor=4
AccountingStorageEnforce=associations
PriorityType=priority/multifactor
PriorityCalcPeriod=1
PriorityMaxAge=1-0
PriorityWeightAge=86400
PriorityWeightFairshare=1000000
PriorityWeightJobSize=1000
PriorityWeightPartition=1000
PriorityWeightQOS=1000
"""
OURS = {
    "age": "Age",
    "fair_share": "Fair share",
    "job_size": "Job size",
    "partition": "Partition",
    "qos": "QOS",
}
PERIOD_S = 60.0


class Tree:
    """Random accounts in accounts, with users, of whom some have their account's shares."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        accounts = [f"a{k}" for k in range(rng.randint(2, 5))]
        self.parent = {
            name: rng.choice(["root", *accounts[:k]]) if k > 1 else "root" for k, name in enumerate(accounts)
        }
        self.account_of = {f"u{k}": rng.choice(accounts) for k in range(rng.randint(4, 9))}

    @property
    def dump(self) -> str:
        rng, lines = self.rng, ["Cluster - 'c':Fairshare=1:QOS='normal,urgent'"]
        for parent in ("root", *self.parent):
            lines.append(f"Parent - '{parent}'")
            lines += [
                f"Account - '{name}':Description='d':Organization='o':Fairshare={rng.randint(1, 9)}"
                for name, above in self.parent.items()
                if above == parent
            ]
            lines += [
                f"User - '{user}':DefaultAccount='{parent}':Fairshare={rng.choice([1, 1, 2, 5, 'parent'])}"
                for user, account in self.account_of.items()
                if account == parent
            ]
        return "\n".join((*lines, ""))

    @property
    def accounting(self) -> str:
        """Jobs that run on all CPUs from the beginning, and one more of each user, which waits for them."""
        rng, rows = (
            self.rng,
            ["JobID|User|Account|QOS|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|NodeList"],
        )
        users = sorted(self.account_of)
        rows += [self.row(k + 1, rng.choice(users[::2]), 0, 1, 1) for k in range(CPUS * N_NODES)]
        rows += [self.row(100 + k, user, 60 + k, rng.choice([1, 2]), CPUS) for k, user in enumerate(users)]
        return "\n".join((*rows, ""))

    def row(self, number: int, user: str, at_s: int, nodes: int, cpus: int) -> str:
        submit_s, qos = BEGAN_S + at_s, self.rng.choice(["normal", "urgent"])
        tres = f"cpu={nodes * cpus},node={nodes}"
        where = f"{user}|{self.account_of[user]}|{qos}|{self.rng.choice(['low', 'high'])}"
        return f"{number}|{where}|{submit_s}|{submit_s}|{submit_s + 5000}|COMPLETED|90|{tres}|n[1-{nodes}]"


def compared(seed: int, folder: Path, more: Sequence[str]) -> dict[int, dict[str, tuple[float, int]]]:
    """Of each job that waits, ours and Slurm's weighted factors, by name."""
    tree = Tree(seed)
    files = {"slurm.conf": CONF + "".join(f"{line}\n" for line in more), ASSOCIATIONS: tree.dump}
    files |= {QOS: "Name|Priority|UsageFactor\nnormal|0|1.0\nurgent|10|2.0\n", "sacct.txt": tree.accounting}
    for name, text in files.items():
        (folder / name).write_text(text)
    conf = folder / "slurm.conf"
    (folder / "out").mkdir()
    policy = read_policy([conf, folder / ASSOCIATIONS, folder / QOS])
    log = read_accounting(folder / "sacct.txt", read_cluster(conf), Rules(time_zone="UTC"))
    Replay(log, slurm_statements=True).run(resolve(f"slurm: {conf}"), folder / "out")
    report = ControllerReport.model_validate_json((folder / "out" / STATEMENTS).read_text())
    facts = read_facts(folder / "out" / TRACE)
    assert log.cluster is not None
    claims = Claims(policy, (*log.cluster.nodes.values(),))
    starts = facts.filter(pl.col("event") == Fact.RUN_STARTED, pl.col("time_s") < FIRST_S + EVERY_S)
    soon = {*starts["job"]}
    starts = starts.filter(pl.col("time_s") < FIRST_S)
    began_s = dict(zip(starts["job"].to_list(), starts["time_s"].to_list(), strict=True))
    asked = dict[int, tuple[int, Claimant]]()
    for slot, row in enumerate(log.jobs.iter_rows(named=True)):
        who = Claimant(log.users[row["user"]], *log.charged[row["charged"]])
        request = log.requests[row["request"]]
        claim = claims.of(who, request, row["estimate_s"])
        assert isinstance(claim, int)
        claims.service.next_claim = claim
        claims.service.arrives(slot, row["submit_s"])
        if row["job"] in began_s:
            claims.service.begins(slot, began_s[row["job"]])
        asked[row["job"]] = slot, who
    claims.service.calculate(FIRST_S)
    found = {}
    for row in log.jobs.iter_rows(named=True):
        if row["job"] in soon & report.factors.keys():  # it was asked for the last time at FIRST_S
            slot, who = asked[row["job"]]
            ours = claims.factors(slot, who, log.requests[row["request"]], row["estimate_s"])
            theirs = report.factors[row["job"]]
            found[row["job"]] = {name: (ours[name], theirs[OURS[name]]) for name in OURS}
    return found


def check(found: dict[int, dict[str, tuple[float, int]]], fair_share_to: float) -> None:
    assert found
    for factors in found.values():
        age, slurms = factors.pop("age")  # a weight for each second
        assert abs(age - slurms) <= PERIOD_S + 5
        share, slurms = factors.pop("fair_share")
        assert share == pytest.approx(slurms, rel=fair_share_to, abs=1)
        assert {name: int(ours) for name, (ours, _) in factors.items()} == {
            name: theirs for name, (_, theirs) in factors.items()
        }


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 21))])
def test_the_factors_of_the_fair_tree_are_those_of_sprio(seed: int, tmp_path: Path) -> None:
    check(compared(seed, tmp_path, ()), 0.0)


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.long) for k in range(2, 21))])
def test_the_classic_factors_are_those_of_sprio(seed: int, tmp_path: Path) -> None:
    """Usage differs by what runs add within a period, since the controller starts jobs a second later."""
    more = ("PriorityFlags=NO_FAIR_TREE", "PriorityFavorSmall=YES")
    check(compared(seed, tmp_path, more), 1e-2)
