"""Replays on nodes with cores, memory and GPUs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.slurm_site import SlurmSite, easy, write_accounting
from scheduler.core import queue, releases
from scheduler.model import Share
from scheduler.node_resources.core import easy as easy_rule
from scheduler.node_resources.core import on_nodes, placement, reserving, timeline
from sil.outcome.invariants.checker import NO_RESOURCE_ABOVE_CAPACITY, Capacity, first_violation
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine
from sil.trace.facts import TRACE, Fact
from sil.trace.held import column, request_of, request_text, shares_in
from sil.trace.reading import read_facts
from sil.workload.accounting import read_accounting
from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.settings import Rules
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster
from tests.commands import sil, succeeded, the_sentence
from tests.examples import up_to
from tests.scheduler.free_nodes import small_consumable, test_consumable_backfilling
from tests.scheduler.free_nodes.small_conservative import SmallReservations
from tests.scheduler.free_nodes.small_consumable import Run, SmallJob, SmallNode, fits, one_pass
from tests.scheduler.free_nodes.test_consumable_backfilling import small_jobs, small_nodes

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

CONF = """\
SelectTypeParameters=CR_Core_Memory
NodeName=n[01-10] CPUs=64 RealMemory=256000
NodeName=g[01-02] CPUs=64 RealMemory=512000 Gres=gpu:a100:4
PartitionName=cpu Nodes=n[01-10] MaxTime=2-00:00:00
PartitionName=gpu Nodes=g[01-02]
PartitionName=all Nodes=ALL MaxNodes=4
"""
HEADER = "JobID|User|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList"


def accounting(folder: Path, *jobs: tuple[str, str, str]) -> Path:
    """Jobs of one hour that were submitted and started at 10 o'clock: partition, TRES, nodes."""
    (folder / "slurm.conf").write_text(CONF)
    at, end = "2026-01-01T10:00:00", "2026-01-01T11:00:00"
    rows = [
        f"{k}|ann|{partition}|{at}|{at}|{end}|COMPLETED|60|{tres}|{tres}|{nodes}"
        for k, (partition, tres, nodes) in enumerate(jobs, 1)
    ]
    (folder / "sacct.txt").write_text("\n".join((HEADER, *rows)) + "\n")
    return folder / "sacct.txt"


def replay(log: Path, *options: str) -> dict[str, pl.DataFrame]:
    """The jobs by scheduler."""
    out = log.parent / "out"
    succeeded("replay", log, "--nodes", log.parent / "slurm.conf", "--out", out, *options)
    return {path.parent.name: pl.read_csv(path) for path in sorted(out.glob("*/jobs.csv"))}


# -- what an operator found ------------------------------------------------------------------------------


def test_nodes_come_from_the_configuration_and_not_from_where_jobs_ran(tmp_path: Path) -> None:
    """Ten alike nodes in two partitions stay ten nodes, each in both."""
    replay(accounting(tmp_path, ("cpu", "cpu=64,node=1", "n01"), ("all", "cpu=64,node=1", "n01")))
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["nodes"] == [
        "Nodes: 10 with 64 CPUs, 256,000 MiB; 2 with 64 CPUs, 512,000 MiB, 4 a100 GPUs",
        "Jobs share nodes by CPUs, memory and GPUs; partitions, by number of nodes: cpu (10), "
        "gpu (2), all (12)",
    ]
    assert (found["gpus"], found["processors"]) == (8, 768)


def test_accounting_without_nodes_is_recognised_and_the_option_named(tmp_path: Path) -> None:
    sentence = the_sentence(sil("replay", accounting(tmp_path, ("cpu", "cpu=1,node=1", "n01"))))
    assert sentence.endswith(
        "this is Slurm's accounting, whose jobs request parts of nodes; name the nodes with --nodes "
        "slurm.conf or --site DATABASE#SITE"
    )


# -- requests, limits, reports ---------------------------------------------------------------------------


def test_gpus_limit_the_jobs_on_a_node_and_are_in_the_table_and_the_metrics(tmp_path: Path) -> None:
    tres = "cpu=1,mem=1G,node=1,gres/gpu=3,gres/gpu:a100=3"
    jobs = replay(accounting(tmp_path, *[("gpu", tres, "g01")] * 3))["easy"]
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 3600.0]
    assert jobs.select("partition", "requested_gpus").unique().rows() == [("gpu", 3.0)]
    found = json.loads((tmp_path / "out" / "summary.json").read_text())["schedulers"]["easy"]
    assert found["gpu_utilisation"] == pytest.approx(100 * 9 / 16)


@pytest.mark.parametrize("nodes", ["g01", ""], ids=["with NodeList", "without NodeList"])
def test_a_job_that_had_all_cpus_of_its_node_and_requested_fewer_has_whole_nodes(
    tmp_path: Path, nodes: str
) -> None:
    """As after --exclusive: on two nodes, the third job waits, and all CPUs and GPUs are in use."""
    log = accounting(tmp_path, *[("gpu", "cpu=4,mem=1G,node=1", nodes)] * 3)
    row = "cpu=4,mem=1G,node=1|cpu=4,mem=1G,node=1"
    log.write_text(log.read_text().replace(row, "cpu=4,mem=1G,node=1|cpu=64,mem=1G,node=1,gres/gpu=4"))
    jobs = replay(log)["easy"]
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 3600.0]
    assert jobs.select("requested_number_of_resources", "requested_gpus").unique().rows() == [(64, 4.0)]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["schedulers"]["easy"]["utilisation"] == pytest.approx(100 * 3 * 64 / (768 * 2))
    assert summary["schedulers"]["easy"]["gpu_utilisation"] == pytest.approx(100 * 3 / (2 * 2))


def test_whole_nodes_are_as_many_as_the_job_had_if_its_cpus_do_not_divide_evenly(tmp_path: Path) -> None:
    """129 CPUs on two nodes of 64 may be requested, and 5 CPUs on two nodes are not packed on one."""
    log = accounting(tmp_path, *[("gpu", f"cpu={n},node=2", "g[01-02]") for n in (129, 5)])
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        conf.read_text().replace("PartitionName=gpu", "PartitionName=gpu OverSubscribe=EXCLUSIVE")
    )
    jobs = replay(log)["easy"]
    assert jobs.select("starting_time", "requested_number_of_resources").rows() == [(0.0, 128), (3600.0, 128)]


def test_a_job_with_a_whole_node_holds_the_gpus_of_that_node_and_no_mean_of_nodes(tmp_path: Path) -> None:
    """Partition `all` has nodes with and without GPUs; the first one has none."""
    log = accounting(tmp_path, ("all", "cpu=1,node=1", "n01"))
    log.write_text(log.read_text().replace("|cpu=1,node=1|n01", "|cpu=64,node=1|n01"))
    assert replay(log)["fcfs"].select("allocated_resources", "requested_gpus").rows() == [(0, 0.0)]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["schedulers"]["fcfs"]["gpu_utilisation"] == 0.0


def test_a_job_that_got_more_than_it_requested_but_not_its_whole_node_shares_it(tmp_path: Path) -> None:
    log = accounting(tmp_path, *[("gpu", "cpu=4,mem=1G,node=1", "g01")] * 3)
    log.write_text(log.read_text().replace("|cpu=4,mem=1G,node=1|g01", "|cpu=63,mem=1G,node=1|g01"))
    assert replay(log)["easy"]["starting_time"].to_list() == [0.0, 0.0, 0.0]


def test_cpus_rounded_up_to_whole_cores_are_no_whole_node(tmp_path: Path) -> None:
    """Slurm allocates both threads of a core to a job that requests one; the node has one core."""
    log = accounting(tmp_path, ("cpu", "cpu=1,node=1", "n1"))
    log.write_text(log.read_text().replace("|cpu=1,node=1|n1", "|cpu=2,node=1|n1"))
    conf = tmp_path / "slurm.conf"
    conf.write_text("NodeName=n1 CoresPerSocket=1 ThreadsPerCore=2\nPartitionName=cpu Nodes=n1\n")
    read = read_accounting(log, read_cluster(conf), Rules())
    assert [(request.cores, request.exclusive) for request in read.requests] == [(2, False)]


@pytest.mark.parametrize(
    ("forbidden", "sentence"),
    [
        (("all", "cpu=320,node=5", "n[01-05]"), "job 1 requests 5 nodes, of which partition all allows 4"),
        (("old", "cpu=1", "n01"), "job 1 requests partition old, which the site does not have"),
        (
            ("cpu", "cpu=1,gres/gpu=1", "n01"),
            "job 1 requests 1 node with 1 CPU, 1 GPU in partition cpu; no node has room for it",
        ),
    ],
)
def test_a_job_that_the_partition_forbids_is_refused_and_the_others_run(
    forbidden: tuple[str, str, str], sentence: str, tmp_path: Path
) -> None:
    log = accounting(tmp_path, forbidden, ("all", "cpu=256,node=4", "n[01-04]"))
    assert replay(log)["fcfs"]["job_id"].to_list() == [2]
    refused = json.loads((tmp_path / "out" / "summary.json").read_text())["schedulers"]["fcfs"]["refused"]
    assert refused == (
        "fcfs: 1 of 2 jobs was refused, and counts in no other metric; the first because " + sentence
    )


@pytest.mark.parametrize(
    ("scheduler", "sentence"),
    [
        (
            "rigid(selection=bestfit)",
            "'bestfit' is no node selection; expected one of first_fit, consecutive,",
        ),
        ("conservative(selection='nosuch:X')", "node selection 'nosuch:X' cannot be loaded: ModuleNotFound"),
        ("easy(selection='tests.faulty:Raises')", "'tests.faulty:Raises' is no subclass of"),
    ],
)
def test_an_unusable_node_selection_is_refused_before_the_replay(
    scheduler: str, sentence: str, tmp_path: Path
) -> None:
    log = accounting(tmp_path, ("cpu", "cpu=1,node=1", "n01"))
    found = the_sentence(sil("replay", log, "--nodes", tmp_path / "slurm.conf", "--scheduler", scheduler))
    assert sentence in found


@pytest.mark.reads_report
def test_the_report_states_the_nodes_and_refused_jobs_and_shows_gpus_in_use(tmp_path: Path) -> None:
    jobs = [
        ("gpu", "cpu=1,node=1,gres/gpu=1", "g01"),
        ("cpu", "cpu=1,node=1", "n01"),
        ("old", "cpu=1", "n01"),
    ]
    replay(accounting(tmp_path, *jobs))
    page = (tmp_path / "out" / "report.html").read_text()
    nodes = (
        "10 with 64 CPUs",
        "Jobs share nodes by CPUs, memory and GPUs",
        "GPUs in use",
        "Schedule of fcfs",
    )
    for text in (*nodes, "fcfs: 1 of 3 jobs was refused"):
        assert text in page


def test_why_counts_the_free_nodes_that_a_job_cannot_use(tmp_path: Path) -> None:
    log = accounting(tmp_path, *[("all", "cpu=32,node=1,gres/gpu:a100=4", "g01")] * 3)
    replay(log, "--reasons")
    told = succeeded("why", tmp_path / "out" / "fcfs", "--job", "3")
    text = " ".join(told.stdout.split())
    assert "1 node with 32 CPUs, 4 a100 GPUs" in text
    assert "12 nodes up in partition all, of these 0 with 4 a100 GPUs free" in text


# -- the accounting of a site ----------------------------------------------------------------------------


def test_replayed_accounting_gives_the_schedule_that_the_site_had(tmp_path: Path) -> None:
    """Under the site's policy its very starts, under others a mean wait within a factor of 2."""
    site = SlurmSite()
    jobs = site.jobs(1000, seed=3)
    starts_s, places, _ = easy(site, jobs)
    (tmp_path / "slurm.conf").write_text(site.slurm_conf)
    write_accounting(tmp_path / "sacct.txt", site, jobs, starts_s, places)
    policies = ["easy", "easy_sjbf", "conservative", "rigid(backfilling=easy, selection=best_fit)"]
    found = replay(tmp_path / "sacct.txt", *(word for name in policies for word in ("--scheduler", name)))
    origin_s = jobs[0].submit_s
    assert (found["easy"]["starting_time"] + origin_s).to_list() == starts_s
    site_wait_s = sum(start - job.submit_s for start, job in zip(starts_s, jobs, strict=True)) / len(jobs)
    assert site_wait_s > 100
    for name, table in found.items():
        mean_s = table["waiting_time"].mean()
        assert isinstance(mean_s, float)
        assert site_wait_s / 2 <= mean_s <= 2 * site_wait_s, name


# -- an independent simulator ----------------------------------------------------------------------------

OneRound = Callable[[list[SmallNode], list[Run], list[SmallJob], float], list[int]]


def in_turn(backfilling: Callable[[SmallJob], float] | None) -> Callable[[list[SmallNode]], OneRound]:
    def policy(empty: list[SmallNode]) -> OneRound:
        return lambda nodes, running, queue, now_s: one_pass(nodes, empty, running, queue, now_s, backfilling)

    return policy


POLICIES: dict[str, Callable[[list[SmallNode]], OneRound]] = {
    "fcfs": in_turn(None),
    "easy": in_turn(lambda job: 0.0),
    "easy_sjbf": in_turn(lambda job: job.estimate_s),
    "conservative": lambda empty: SmallReservations(empty).one_round,
}


@settings(
    max_examples=up_to(400, 20), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    small_nodes(),
    st.lists(
        st.tuples(small_jobs(), st.integers(0, 4), st.integers(1, 6), st.sampled_from([1, 1, 3])),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(sorted(POLICIES)),
)
def test_every_start_equals_that_of_the_independent_simulator(
    tmp_path: Path, empty: list[SmallNode], drawn: list[tuple[SmallJob, int, int, int]], policy: str
) -> None:
    """Some jobs are arrays of three."""
    arrives_s, jobs = 0.0, list[tuple[float, float, SmallJob]]()
    for job, later_s, run_s, size in drawn:
        arrives_s += later_s
        if fits(empty, job):
            ends_in_s = min(float(run_s), job.estimate_s)
            jobs += [(arrives_s, ends_in_s, deepcopy(job)) for _ in range(size)]
    if not jobs:
        return
    expected = small_consumable.replayed(empty, deepcopy(jobs), POLICIES[policy](empty))
    state = test_consumable_backfilling.state_of(empty).nodes
    capacity = Capacity(len(empty), nodes=state.all, site_resources=state.site_resources)
    for engine in [Engine.HARNESS] if policy == "conservative" else [Engine.HARNESS, Engine.COMPILED]:
        facts = replayed(empty, jobs, policy, engine, tmp_path)
        started = facts.filter(pl.col("event") == Fact.RUN_STARTED).sort("job")["time_s"].to_list()
        assert started == expected
        assert first_violation(facts, capacity) is None


def replayed(
    empty: list[SmallNode],
    jobs: list[tuple[float, float, SmallJob]],
    policy: str,
    engine: Engine,
    folder: Path,
) -> pl.DataFrame:
    state = test_consumable_backfilling.state_of(empty).nodes
    nodes = {f"n{n}": node for n, node in enumerate(state.all)}
    rows = [(k, submit_s, run_s, 1, job.estimate_s, -1, k) for k, (submit_s, run_s, job) in enumerate(jobs)]
    log = JobLog(
        "small",
        pl.DataFrame(rows, {**SCHEMA, "request": pl.Int64}, orient="row"),
        len(empty),
        cluster=SiteNodes(nodes, {}, {}, site_resources=state.site_resources),
        requests=tuple(test_consumable_backfilling.request_of(job) for _, _, job in jobs),
    )
    Replay(log, engine=engine).run(resolve(policy), folder)
    return pl.read_parquet(folder / TRACE)


def test_reservations_do_not_depend_on_the_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More jobs wait, and they and runs use more rows, than there is room for at first."""
    site = SlurmSite()
    jobs = site.jobs(600, seed=5, load=3.0)
    starts_s, places, _ = easy(site, jobs)
    (tmp_path / "slurm.conf").write_text(site.slurm_conf)
    write_accounting(tmp_path / "sacct.txt", site, jobs, starts_s, places)
    found = []
    for fewest in (1, 10_000):
        for module in (queue, releases, easy_rule, on_nodes, placement, reserving, timeline):
            monkeypatch.setattr(module, "MIN_SIZE", fewest)
        found.append(replay(tmp_path / "sacct.txt", "--scheduler", "conservative")["conservative"])
    assert found[0].equals(found[1])
    assert found[0]["waiting_time"].max() > 0


# -- traces ----------------------------------------------------------------------------------------------


@given(small_jobs())
def test_a_request_in_a_trace_is_read_as_it_was_written(job: SmallJob) -> None:
    request = test_consumable_backfilling.request_of(job)
    assert request_of(request_text(request)) == request


def with_gpus(before: tuple[int, ...], after: tuple[int, ...]) -> Callable[[Share], Share]:
    return lambda share: share._replace(gpus=after) if share.gpus == before else share


FAULTS: dict[str, tuple[Callable[[Share], Share], str]] = {
    "a chunk more": (lambda share: share._replace(chunks=2), "it requests 1 chunks and gets 2"),
    "another node": (lambda share: share._replace(node=0), "GPU 0"),
    "a GPU twice": (with_gpus((0, 1), (0, 0)), "get 1 GPU of"),
    "GPUs of another job": (with_gpus((2, 3), (0, 1)), "GPU 0 of node 10 is not free"),
    "too few GPUs": (with_gpus((2, 3), (2,)), "get 1 GPU of"),
    "a GPU that is not there": (with_gpus((2, 3), (2, 9)), "has no GPU 9"),
    "no such node": (lambda share: share._replace(node=99), "there are nodes 0 to 11"),
}


@pytest.fixture(scope="module")
def two_on_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The replay of two jobs that share a node, each on two of its GPUs."""
    log = accounting(tmp_path_factory.mktemp("gpus"), *[("gpu", "cpu=1,node=1,gres/gpu:a100=2", "g01")] * 2)
    replay(log, "--scheduler", "fcfs", "--no-report")
    return log.parent


@pytest.mark.parametrize("fault", FAULTS)
def test_an_invariant_finds_a_share_that_is_not_free(fault: str, two_on_gpus: Path) -> None:
    spoil, sentence = FAULTS[fault]
    path, spoilt = two_on_gpus / "out" / "fcfs" / TRACE, two_on_gpus / "spoilt.parquet"
    facts, nodes = read_facts(path), tuple(read_cluster(two_on_gpus / "slurm.conf").nodes.values())
    assert first_violation(facts, Capacity(12, nodes=nodes)) is None
    cells = [None if each is None else [*map(spoil, each)] for each in shares_in(facts["shares"])]
    facts.with_columns(column("shares", cells)).write_parquet(spoilt, metadata={"sil": "{}"})
    breach = first_violation(read_facts(spoilt), Capacity(12, nodes=nodes))
    assert breach is not None
    assert breach.rule == NO_RESOURCE_ABOVE_CAPACITY
    assert sentence in breach.message


DECIDES = """
import sys
from scheduler.free_nodes.{module} import {name}
import sil

class Watched({name}):
    before = None

    def schedule(self, problem):
        Watched.before = Watched.before or set(sys.modules)
        return super().schedule(problem)

log = sil.read_log("sacct.txt", nodes="slurm.conf")
sil.replay(log, Watched, engine="harness", determinism_check=False, progress=False)
late = sorted(name for name in sys.modules.keys() - Watched.before if name.startswith("scheduler."))
print(late)
"""


@pytest.mark.parametrize(
    ("module", "name"),
    [("rigid", "Rigid"), pytest.param("conservative", "Conservative", marks=pytest.mark.long)],
)
def test_nothing_is_imported_within_a_decision(module: str, name: str, tmp_path: Path) -> None:
    accounting(tmp_path, *[("cpu", "cpu=8,mem=4000M,node=1", "n01")] * 3)
    code = DECIDES.format(module=module, name=name)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
