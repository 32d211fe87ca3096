"""Replays on switches and blocks: who waits for how few leaf switches, and until when."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.site.logs import nodes_in_database, read_nodes_of
from sil.trace.facts import Fact
from sil.trace.held import request_of
from sil.workload.job_log import JobLog
from tests.commands import succeeded
from tests.examples import up_to
from tests.sil.runs.test_engines_on_nodes import SCHEDULERS, logs

CONF = """TopologyPlugin=topology/tree
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=tux[0-7] CPUs=4
PartitionName=p Nodes=ALL
"""
TOPOLOGY = """SwitchName=s0 Nodes=tux[0-1]
SwitchName=s1 Nodes=tux[2-3]
SwitchName=s2 Nodes=tux[4-5]
SwitchName=s3 Nodes=tux[6-7]
SwitchName=s4 Switches=s[0-1]
SwitchName=s5 Switches=s[2-3]
SwitchName=s6 Switches=s[4-5]
"""
BLOCKS = "".join(f"BlockName=b{k} Nodes=tux[{2 * k}-{2 * k + 1}]\n" for k in range(4))
BEGAN_S = 1_772_442_000


def write_site(folder: Path, jobs: list[tuple[int, int, int, str]], conf: str = CONF) -> None:
    """Jobs of a number of nodes that arrive, run for some seconds, and have options of sbatch."""
    rows = ["JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|SubmitLine"]
    for number, (at_s, n, run_s, options) in enumerate(jobs, start=1):
        times = f"{BEGAN_S + at_s}|{BEGAN_S + at_s}|{BEGAN_S + at_s + run_s}|COMPLETED|60"
        rows.append(f"{number}|ann|p|{times}|cpu={4 * n},node={n}|sbatch {options}job.sh")
    texts = {"sacct.txt": "\n".join(rows) + "\n", "slurm.conf": conf, "topology.conf": TOPOLOGY}
    for name, text in texts.items():
        (folder / name).write_text(text)


def starts(*options: str) -> dict[int, tuple[float, str]]:
    """When each job of sacct.txt starts, and where."""
    succeeded("replay", "sacct.txt", "--nodes", "slurm.conf", *options, "--out", "out", "--no-report")
    table = pl.read_csv(next(Path("out").glob("*/jobs.csv"))).sort("job_id")
    return {
        k: (at, where)
        for k, at, where in table.select("job_id", "starting_time", "allocated_resources").rows()
    }


TWO_ARE_FREE = [(0, 3, 2000, ""), (1, 3, 2000, "")]
"""They are on tux[0-2] and tux[4-6]: tux3 and tux7 are free."""


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "slurm_backfill(bf_interval=1)"])
@pytest.mark.parametrize(
    ("options", "start_s"),
    [
        ("", 10.0),
        ("--switches=2 ", 10.0),
        ("--switches=1@2:00 ", 130.0),  # then any leaf switches will do
        ("--switches 1 ", 310.0),  # max_switch_wait
        ("--switches=1@10 ", 310.0),  # it is the longest
        ("--switches=1@0 ", 10.0),
    ],
)
def test_a_job_waits_for_one_leaf_switch_as_long_as_it_asks_for(
    scheduler: str, options: str, start_s: float, here: Path
) -> None:
    write_site(here, [*TWO_ARE_FREE, (10, 2, 100, options)])
    assert starts("--scheduler", scheduler)[3] == (start_s, "3 7")


def test_it_starts_as_soon_as_one_leaf_switch_holds_it(here: Path) -> None:
    write_site(here, [(0, 3, 50, ""), (1, 3, 2000, ""), (10, 2, 100, "--switches=1 ")])
    assert starts("--scheduler", "easy")[3] == (50.0, "0-1")


@pytest.mark.usefixtures("without_reports")
@pytest.mark.parametrize("kind", ["tree", "block"])
def test_a_site_in_a_database_has_the_switches_or_blocks_of_its_files(kind: str, here: Path) -> None:
    write_site(here, [*TWO_ARE_FREE, (10, 2, 100, "--switches=1@2:00 ")], CONF.replace("tree", kind))
    if kind == "block":
        (here / "topology.conf").write_text(BLOCKS)
    site = "--db", "lab.db#lab"
    succeeded("db", "init", *site)
    succeeded("db", "import-slurm-conf", "slurm.conf", *site)
    succeeded("db", "export", *site, "--out", "lab.toml")
    given = {"files": ("--nodes", "slurm.conf"), "site": ("--nodes", "lab.toml"), "db": ("--site", site[1])}
    for out, nodes in given.items():
        succeeded("replay", "sacct.txt", *nodes, "--scheduler", "easy", "--out", out)
        jobs = (here / out / "easy" / "jobs.csv").read_bytes()
        assert jobs == (here / "files" / "easy" / "jobs.csv").read_bytes()
    expected = read_nodes_of(here / "slurm.conf")
    for found in (nodes_in_database(site[1]), read_nodes_of(here / "lab.toml")):
        assert found.topology == expected.topology
        assert [x.switch for x in found.nodes.values()] == [x.switch for x in expected.nodes.values()]


def test_the_reason_names_the_leaf_switches(here: Path) -> None:
    write_site(here, [*TWO_ARE_FREE, (10, 2, 100, "--switches=1@2:00 "), (11, 1, 10, "")])
    starts("--scheduler", "easy", "--scheduler", "conservative", "--reasons")
    for name, begins in (("easy", "first of the queue: "), ("conservative", "")):
        assert (
            f"job 3 waits: {begins}it requests 2 nodes with 4 CPUs each, for which there is room, but 2 leaf "
            f"switches connect them, and it may have 1 until it has waited for 120 s"
        ) in " ".join(succeeded("why", f"out/{name}/trace.parquet", "--job", "3").output.split())


def test_a_job_that_no_switch_connects_is_refused(here: Path) -> None:
    write_site(here, [(0, 3, 10, ""), (1, 5, 10, "")])
    (here / "topology.conf").write_text(TOPOLOGY.replace("SwitchName=s6 Switches=s[4-5]\n", ""))
    done = succeeded("replay", "sacct.txt", "--nodes", "slurm.conf", "--scheduler", "easy", "--no-report")
    assert "no switch connects so many of them" in " ".join(done.output.split())


@settings(max_examples=up_to(500, part=20), deadline=None)
@given(logs(), st.sampled_from(SCHEDULERS))
def test_no_job_has_more_leaf_switches_than_it_may_have_before_its_time(log: JobLog, scheduler: str) -> None:
    assert log.cluster is not None
    topology, nodes = log.cluster.topology, [*log.cluster.nodes.values()]
    if topology is None:
        return
    facts = Replay(log, engine=Engine.COMPILED).facts(resolve(f"{scheduler})"), Path(os.devnull))
    arrived = {
        job: (at_s, request_of(detail))
        for job, at_s, detail in facts.filter(pl.col("event") == Fact.JOB_ARRIVED)
        .select("job", "time_s", "detail")
        .iter_rows()
    }
    begun = facts.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s", "shares")
    for job, at_s, shares in begun.iter_rows():
        arrived_s, request = arrived[job]
        leaves = {nodes[share["node"]].switch for share in shares}
        if topology.is_optional and not request.switches:
            continue
        assert leaves <= {*topology.leaves}, "a node on no switch"
        assert len(leaves) <= (request.switches or 99) or at_s - arrived_s >= request.switch_wait_s
        if len(leaves) > 1:
            places = {topology.leaves.index(leaf) for leaf in leaves}
            assert any(below >= places for _, below in topology.above)
