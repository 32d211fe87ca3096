"""Slurm's controller on nodes with cores, memory and GPUs: replays, experiments, and what they refuse."""

from __future__ import annotations

from math import inf
from pathlib import Path

import polars as pl
import pytest

from scheduler.node_request import Gpus, Node, Partition, Request
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.slurm.runs import controller_limits
from sil.trace.facts import TRACE, Fact
from sil.trace.reading import read_facts
from site_db.site_file.cluster import SiteNodes
from tests.commands import sil, succeeded
from tests.sil.experiment.test_experiment import ROOT
from tests.sil.runs.test_engines_on_nodes import log_on_nodes
from tests.sil.slurm.installed import needs_slurm

SITE_CONF = """
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,shard
NodeName=DEFAULT Sockets=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=64000
NodeName=a[1-2] CoreSpecCount=1 MemSpecLimit=2000
NodeName=g1 Gres=gpu:a100:2,gpu:v100:2,shard:8
NodeName=a3 State=DOWN
PartitionName=batch Nodes=a[1-3] Default=YES
PartitionName=gpu Nodes=g1 PriorityTier=5
"""
ACCOUNTING = """
JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|AllocTRES|NodeList
1|ann|batch|2026-03-02T08:00:00|2026-03-02T08:00:04|2026-03-02T08:21:34|COMPLETED|60|cpu=14,mem=62000M,node=1|a1
2|bob|gpu|2026-03-02T08:00:20|2026-03-02T08:00:22|2026-03-02T08:32:40|COMPLETED|60|cpu=4,mem=6G,node=1,gres/gpu:v100=2|g1
3|ann|batch|2026-03-02T08:00:30|2026-03-02T08:22:42|2026-03-02T08:42:40|COMPLETED|60|cpu=28,mem=124000M,node=2|a[1-2]
""".strip()
EXPERIMENT = """
name = "queues"
site = "gpu-cluster"
schedulers = ["slurm"]
[workload]
jobs = 12
arrivals = { kind = "poisson", jobs_per_quantum = 400, quantum_s = 3600 }
users = { ann = 1, bob = 1 }
[workload.mix]
notebook = 1
training = 1
[[queues]]
name = "all"
priority = 5
users = ["ann"]
[[queues]]
name = "gpu"
"""
ANY = frozenset({"batch"})


@pytest.fixture
def folder(here: Path) -> Path:
    for name, text in (("slurm.conf", SITE_CONF), ("log.txt", ACCOUNTING), ("queues.toml", EXPERIMENT)):
        (here / name).write_text(text)
    return here


def replay_under(name: str) -> str:
    """What is printed."""
    return sil("replay", "log.txt", "--nodes", "slurm.conf", "--scheduler", name, "--no-report").output


@needs_slurm
@pytest.mark.usefixtures("folder")
def test_accounting_is_replayed_on_the_nodes_of_its_slurm_conf() -> None:
    """With specialised cores, hardware threads, a node that is down, and shards."""
    done = succeeded(
        *("replay", "log.txt", "--nodes", "slurm.conf", "--scheduler", "easy"),
        *("--scheduler", "slurm: slurm.conf", "--out", "out", "--no-report"),
    )
    ours, slurms = (
        pl.read_csv(Path("out") / name / "jobs.csv").sort("job_id") for name in ("easy", "slurm-slurm.conf")
    )
    assert (
        slurms["allocated_resources"].to_list() == ours["allocated_resources"].to_list() == ["0", "2", "0-1"]
    )
    assert (slurms["starting_time"] - ours["starting_time"]).is_between(0, 5).all()
    assert "ignored: PriorityTier=5" in done.output
    assert "settings ignored above do apply under 'slurm: slurm.conf'" in " ".join(done.output.split())
    assert "ignored" not in replay_under("slurm: slurm.conf")


@needs_slurm
@pytest.mark.usefixtures("folder")
def test_other_nodes_than_those_of_the_log_are_one_sentence() -> None:
    Path("less.conf").write_text(SITE_CONF.replace("a[1-2]", "a1").replace("a[1-3]", "a1,a3"))
    Path("small.conf").write_text(SITE_CONF.replace("64000", "32000"))
    Path("more.conf").write_text(SITE_CONF.replace(" State=DOWN", ""))
    assert "less.conf lacks 1 node (a2); expected" in replay_under("slurm: less.conf")
    assert "more.conf has, beside those of the jobs, 1 node (a3)" in replay_under("slurm: more.conf")
    assert "other CPUs, memory or GPUs, 3 nodes (a1, a2, g1)" in replay_under("slurm: small.conf")


@needs_slurm
def test_requests_that_slurm_cannot_serve_are_refused_with_the_reason(tmp_path: Path) -> None:
    node = Node(16, 16_000, ("a100", "a100"), partitions=ANY)
    cluster = SiteNodes({"n1": node, "n2": node}, {"batch": Partition("batch")}, {})
    requests = [
        Request(partitions=ANY),
        Request(cores=0.5, partitions=ANY),
        Request(gpus=Gpus(1, 0.5), partitions=ANY),
        Request(2, 2, 2441, most_on_node=None, exclusive=True, partitions=ANY),
        Request(2, 2, 1900, most_on_node=None, exclusive=True, partitions=ANY),
        Request(2, 10, most_on_node=2, partitions=ANY),
    ]
    log = log_on_nodes(cluster, requests, [(10.0 * k, 5.0, 60.0, 1) for k in range(len(requests))])
    assert Replay(log).run(resolve("slurm"), tmp_path).fault is None
    facts = read_facts(tmp_path / TRACE)
    refused = dict(facts.filter(pl.col("event") == Fact.JOB_REFUSED).select("job", "detail").iter_rows())
    nowhere = "Slurm rejected it: no nodes have what is requested"
    assert refused == {
        1: "it requests 0.5 CPUs, and Slurm allocates whole ones",
        2: "it requests 0.5 of a GPU, and Slurm allocates whole ones here",
        3: nowhere,  # it wants 1,221 MB for each of 16 CPUs
        # It reserves room for two tasks on each node.
        5: "Slurm rejected it: CPU count per node can not be satisfied",
    }


@needs_slurm
@pytest.mark.usefixtures("folder")
def test_an_experiment_with_queues_runs_under_slurm_with_their_users() -> None:
    done = succeeded("run", "queues.toml", "--out", "out", "--workers", "1")
    assert "refused, and count in no other metric; the first because user 'bob' may not submit" in done.output


def test_a_job_may_run_for_its_own_limit_whatever_the_default_of_partitions() -> None:
    """Longer runs are followed second by second, until Slurm ends them."""
    patience = controller_limits(["PartitionName=all Nodes=ALL DefaultTime=60", "OverTimeLimit=1"])
    assert patience.ends_after_s(7200.0) == 7260.0
    assert patience.ends_after_s(inf) == 3660.0


@pytest.mark.usefixtures("folder")
def test_queues_that_are_no_partitions_are_one_sentence() -> None:
    path = Path("queues.toml")
    path.write_text(EXPERIMENT.replace('name = "all"', 'name = "urgent"'))
    done = sil("run", path, "--out", "out")
    assert "'slurm': its queues are partitions, and the site 'gpu-cluster' has no partition" in done.output
    path.write_text(EXPERIMENT.replace("priority = 5", 'priority = 5\ndisplaces = ["gpu"]'))
    done = sil("run", path, "--out", "out")
    assert "queue 'all' displaces others, which only a slurm.conf can state" in done.output


@pytest.mark.parametrize(
    ("name", "said"),
    [("light-to-heavy", "maps jobs to machines"), ("shared-nodes", "starts jobs on time-shared nodes")],
)
def test_machines_and_time_shared_nodes_are_not_slurms(name: str, said: str, tmp_path: Path) -> None:
    text = (ROOT / "fixtures" / "experiments" / f"{name}.toml").read_text()
    lines = ['schedulers = ["slurm"]' if x.startswith("schedulers =") else x for x in text.splitlines()]
    path = tmp_path / "experiment.toml"
    path.write_text("\n".join(lines))
    done = sil("run", path, "--out", tmp_path / "out")
    assert "scheduler 'slurm' starts jobs on free nodes" in done.output
    assert said in done.output
