from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.node_request import Gpus, Node, Partition, Request
from sil.workload.accounting import read_accounting
from sil.workload.job_log import JobLog
from sil.workload.settings import Overrun, Rules
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes

NODES = {
    "n1": Node(64, 256_000, partitions=frozenset({"cpu", "all"})),
    "n2": Node(64, 256_000, partitions=frozenset({"cpu", "all", "whole"})),
    "g1": Node(64, 512_000, ("a100",) * 4, {"fpga": 1}, partitions=frozenset({"gpu", "all"})),
}
PARTITIONS = {
    "cpu": Partition("cpu", max_time_s=86_400.0),
    "gpu": Partition("gpu", max_time_s=86_400.0, default_time_s=1800.0),
    "all": Partition("all"),
    "whole": Partition("whole", is_exclusive=True),
}
CLUSTER = SiteNodes(NODES, PARTITIONS, {})

GOOD = {
    "JobID": "7",
    "User": "ann",
    "Partition": "cpu",
    "Submit": "2026-01-01T09:00:00",
    "Start": "2026-01-01T10:00:00",
    "End": "2026-01-01T11:00:00",
    "State": "COMPLETED",
    "TimelimitRaw": "120",
    "ReqTRES": "cpu=4,mem=8G,node=1",
    "AllocTRES": "billing=4,cpu=4,mem=8G,node=1",
}


def read(
    folder: Path, *jobs: dict[str, str], cluster: SiteNodes = CLUSTER, rules: Rules | None = None
) -> JobLog:
    path = folder / "accounting.txt"
    rows = [GOOD | job for job in jobs]
    path.write_text("".join("|".join(line) + "\n" for line in (rows[0], *(row.values() for row in rows))))
    return read_accounting(path, cluster, rules or Rules())


def the_request(folder: Path, tres: str, cluster: SiteNodes = CLUSTER, **job: str) -> Request:
    log = read(folder, {"ReqTRES": tres, "AllocTRES": tres, **job}, cluster=cluster)
    return log.requests[log.jobs["request"][0]]


THREADED = SiteNodes(NODES, PARTITIONS, dict.fromkeys(NODES, 2))
WITHOUT_MEMORY = SiteNodes(NODES, PARTITIONS, {}, has_memory=False)


@pytest.mark.parametrize(
    ("tres", "partition", "cluster", "requested"),
    [
        ("cpu=4,mem=8G,node=1", "cpu", CLUSTER, Request(1, 4, 8192)),
        ("cpu=128,mem=400G,node=2", "cpu", CLUSTER, Request(2, 64, 204_800)),
        ("cpu=7,mem=14M,node=2", "cpu", CLUSTER, Request(7, 1, 2, most_on_node=None)),
        (
            "cpu=8,mem=1G,node=1,gres/gpu=2,gres/gpu:a100=2",
            "gpu",
            CLUSTER,
            Request(1, 8, 1024, Gpus(2, types=frozenset({"a100"}))),
        ),
        ("cpu=8,mem=1G,node=1,gres/gpu=2", "gpu", CLUSTER, Request(1, 8, 1024, Gpus(2))),
        ("cpu=3,mem=1G,node=1", "cpu", THREADED, Request(1, 4, 1024)),
        ("cpu=4,mem=1G,node=1", "whole", CLUSTER, Request(1, 4, 1024, exclusive=True)),
        ("cpu=4,mem=8G,node=1", "cpu", WITHOUT_MEMORY, Request(1, 4, 0)),
    ],
    ids=["one node", "nodes", "tasks", "GPUs of a type", "GPUs", "whole cores", "exclusive", "no memory"],
)
def test_a_job_requests_equal_parts_of_its_nodes(
    tres: str, partition: str, cluster: SiteNodes, requested: Request, tmp_path: Path
) -> None:
    expected = replace(requested, partitions=frozenset({partition}))
    assert the_request(tmp_path, tres, cluster, Partition=partition) == expected


def test_what_was_requested_counts_rather_than_what_was_allocated(tmp_path: Path) -> None:
    log = read(tmp_path, {"ReqTRES": "cpu=2,mem=1G,node=1", "AllocTRES": "cpu=62,mem=256G,node=1"})
    assert log.requests == (Request(1, 2, 1024, partitions=frozenset({"cpu"})),)


def test_resources_that_no_node_has_are_ignored_and_others_are_requested(tmp_path: Path) -> None:
    tres = "cpu=4,node=1,gres/fpga=1,gres/ssd=9"
    log = read(tmp_path, {"ReqTRES": tres, "AllocTRES": tres, "Partition": "gpu"})
    assert [request.others for request in log.requests] == [{"fpga": 1}]
    assert log.notes == (
        "1 job: gres/ssd is requested, which no node has; ignored, unless Gres in slurm.conf has it",
    )


def test_a_job_of_an_exclusive_and_a_shared_partition_goes_to_the_one_that_shares_if_it_can(
    tmp_path: Path,
) -> None:
    nodes = {
        "x1": Node(8, 9_000, partitions=frozenset({"whole"})),
        "s1": Node(4, 9_000, partitions=frozenset({"shared"})),
    }
    partitions = {"whole": Partition("whole", is_exclusive=True), "shared": Partition("shared")}
    log = read(
        tmp_path,
        {"Partition": "whole,shared", "ReqTRES": "cpu=4,node=1"},
        {"Partition": "whole,shared", "ReqTRES": "cpu=8,node=1", "JobID": "8"},
        cluster=SiteNodes(nodes, partitions, {}),
    )
    assert [(request.exclusive, request.partitions) for request in log.requests] == [
        (False, {"shared"}),
        (True, {"whole"}),
    ]


def test_tasks_in_a_partition_that_limits_nodes_are_in_as_many_blocks(tmp_path: Path) -> None:
    """15 CPUs on 2 nodes are 15 tasks, of which 8 are on one node; of 2 blocks each is on one."""
    partitions = {"all": Partition("all", max_nodes=2)}
    log = read(
        tmp_path,
        {"Partition": "all", "ReqTRES": "cpu=15,mem=15G,node=2"},
        cluster=SiteNodes(NODES, partitions, {}),
    )
    ((request),) = log.requests
    assert (request.chunks, request.cores, request.memory_mib) == (2, 8, 8 * 1024)


def test_licences_are_requested_once_by_a_job_on_several_nodes(tmp_path: Path) -> None:
    site = {"matlab": 5, "ansys@srv": 20, "abaqus@a": 1, "abaqus@b": 1}
    cluster = SiteNodes(NODES, PARTITIONS, {}, site_resources=site)
    tres = "cpu=128,mem=400G,node=2,license/matlab=1,license/ansys=4,license/abaqus@b=1"
    request = the_request(tmp_path, tres, cluster)
    assert (request.chunks, request.others) == (2, {})
    assert request.site_resources == {"matlab": 1, "ansys@srv": 4, "abaqus@b": 1}
    assert the_request(tmp_path, "cpu=1,node=1,license/abaqus=1", cluster).site_resources == {}


def test_licences_that_the_cluster_does_not_declare_are_ignored_and_counted(tmp_path: Path) -> None:
    cluster = SiteNodes(NODES, PARTITIONS, {}, site_resources={"matlab": 5})
    jobs = [{"ReqTRES": "cpu=4,node=1,license/matlab=1,license/abaqus=2", "JobID": str(k)} for k in (1, 2)]
    log = read(tmp_path, *jobs, {"ReqTRES": "cpu=4,node=1,bb/datawarp=9,license/matlab=0"}, cluster=cluster)
    assert [request.site_resources for request in log.requests] == [{"matlab": 1}, {}]
    undeclared = (
        "is requested, which the cluster does not declare; ignored, unless Licenses in slurm.conf has it "
        "before the log is read"
    )
    assert log.notes == (f"2 jobs: abaqus {undeclared}", f"1 job: datawarp {undeclared}")


def test_a_request_for_more_licences_than_there_are_is_named_with_its_jobs(tmp_path: Path) -> None:
    cluster = SiteNodes(NODES, PARTITIONS, {}, site_resources={"matlab": 5})
    log = read(tmp_path, {"ReqTRES": "cpu=4,mem=8G,node=1,license/matlab=6"}, cluster=cluster)
    requested = "1 node with 4 CPUs, 8,192 MiB, and 6 matlab"
    assert log.notes == (f"job 7 requests {requested}, but the site has 5 matlab; refused when it arrives",)


def test_every_job_that_used_its_nodes_is_replayed_whatever_became_of_it(tmp_path: Path) -> None:
    states = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 5", "PREEMPTED", "NODE_FAIL", "OUT_OF_MEMORY"]
    log = read(tmp_path, *({"JobID": str(k), "State": state} for k, state in enumerate(states, 1)))
    assert log.jobs["job"].to_list() == [1, 2, 3, 4, 5, 6, 7]


def test_jobs_that_never_started_are_counted_as_left_out(tmp_path: Path) -> None:
    never = {"JobID": "8", "Start": "Unknown", "State": "CANCELLED by 5"}
    log = read(tmp_path, {}, never, {"JobID": "9", "State": "PENDING", "Start": "Unknown"})
    assert log.jobs["job"].to_list() == [7]
    assert sum("left out" in note for note in log.notes) >= 1


def test_times_are_those_of_submission_and_of_the_run(tmp_path: Path) -> None:
    log = read(tmp_path, {}, {"JobID": "8", "Submit": "2026-01-01T09:30:00"})
    assert log.jobs.select("submit_s", "run_s", "estimate_s").rows() == [
        (0.0, 3600.0, 7200.0),
        (1800.0, 3600.0, 7200.0),
    ]


@pytest.mark.parametrize(
    ("partition", "estimate_s"), [("cpu", 86_400.0), ("gpu", 3600.0), ("all", 3600.0), ("cpu,all", 3600.0)]
)
def test_a_job_without_a_time_limit_has_its_partitions(
    partition: str, estimate_s: float, tmp_path: Path
) -> None:
    """The default of `gpu` is shorter than the run, and raised; `all` has no limit, so neither have both."""
    log = read(tmp_path, {"TimelimitRaw": "", "Partition": partition})
    assert log.jobs["estimate_s"].to_list() == [estimate_s]


def test_runs_beyond_the_time_limit_are_cut_on_request(tmp_path: Path) -> None:
    log = read(tmp_path, {"TimelimitRaw": "30"}, rules=Rules(overrun=Overrun.CUT))
    assert log.jobs.select("run_s", "estimate_s").rows() == [(1800.0, 1800.0)]
    assert log.cut == {7}


def test_a_job_that_ended_seconds_after_the_limit_of_its_partition_is_cut_there_and_admitted(
    tmp_path: Path,
) -> None:
    """As a timeout: the controller needs some seconds to end it."""
    log = read(tmp_path, {"TimelimitRaw": "1440", "State": "TIMEOUT", "End": "2026-01-02T10:00:29"})
    assert log.jobs.select("run_s", "estimate_s").rows() == [(86_400.0, 86_400.0)]
    assert log.cut == {7}
    assert log.notes == ("1 job ran for longer than the partition allows; the run is cut to the limit",)


def test_a_limit_is_raised_to_the_run_time_as_far_as_a_partition_allows(tmp_path: Path) -> None:
    log = read(tmp_path, {"TimelimitRaw": "30"}, {"JobID": "8", "TimelimitRaw": "30", "Partition": "all"})
    assert log.jobs.select("run_s", "estimate_s").rows() == [(3600.0, 3600.0)] * 2
    assert not log.cut


def test_a_longer_limit_than_the_partition_allows_stays_as_it_was_requested(tmp_path: Path) -> None:
    log = read(tmp_path, {"TimelimitRaw": "1500", "End": "2026-01-02T11:05:00"})
    assert log.jobs["estimate_s"].to_list() == [90_000.0]


def test_array_tasks_and_requeued_jobs_get_numbers_of_their_own(tmp_path: Path) -> None:
    log = read(tmp_path, {"JobID": "5_1"}, {"JobID": "5_2"}, {"JobID": "7"}, {"JobID": "7"})
    assert sorted(log.jobs["job"].to_list()) == [7, 8, 9, 10]


def test_users_keep_their_names(tmp_path: Path) -> None:
    log = read(tmp_path, {}, {"JobID": "8", "User": "bob"})
    assert [log.users[x] for x in log.jobs["user"].to_list()] == ["ann", "bob"]


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        ({"ReqTRES": "cpu=four", "AllocTRES": "cpu=four"}, "'cpu=four' has no whole number of at least 0"),
        ({"ReqTRES": "mem=-1G", "AllocTRES": "mem=-1G"}, "'-1G' is not an amount of memory"),
        ({"State": "PENDING", "Start": "Unknown"}, "no job of 1 row used its nodes"),
    ],
)
def test_accounting_without_a_usable_job_is_refused_with_the_reason(
    job: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(tmp_path, job)
    assert sentence in str(caught.value)


FEATURES = {
    **NODES,
    "n2": Node(64, 256_000, features=frozenset({"new", "ib"}), partitions=frozenset({"cpu", "all"})),
}


@pytest.mark.parametrize(
    ("constraint", "nodes", "features", "sentence"),
    [
        ("new&ib", 1, {"new", "ib"}, ""),
        ("new|old", 1, {"new|old"}, ""),
        (
            "fast",
            1,
            set(),
            "the constraint fast is requested, which no node has; ignored, unless Features in",
        ),
        ("fast&ib", 1, {"ib"}, "the constraint fast is requested"),
        ("[new|ib]", 2, set(), "the constraint [new|ib] is requested, which is not the same for all nodes"),
        ("new*1&ib*1", 2, set(), "the constraint new*1&ib*1 is requested"),
    ],
)
def test_constraints_are_features_of_each_node_as_far_as_these_can_say_them(
    constraint: str, nodes: int, features: set[str], sentence: str, tmp_path: Path
) -> None:
    tres = f"cpu={nodes},node={nodes}"
    job = {"Constraints": constraint, "ReqTRES": tres, "AllocTRES": tres}
    log = read(tmp_path, job, cluster=SiteNodes(FEATURES, PARTITIONS, {}))
    assert log.requests[0].features == features
    assert any(note.startswith(f"1 job: {sentence}") for note in log.notes) == bool(sentence)


def test_a_node_with_one_of_several_features_satisfies_a_request(tmp_path: Path) -> None:
    cluster = SiteNodes(FEATURES, PARTITIONS, {})
    (request,) = read(tmp_path, {"Constraints": "(new|old)&ib"}, cluster=cluster).requests
    assert [name for name, node in FEATURES.items() if request.may_use(node)] == ["n2"]


def test_a_job_arrives_when_it_was_eligible_and_a_note_says_so(tmp_path: Path) -> None:
    log = read(
        tmp_path, {"Eligible": "2026-01-01T09:59:00"}, {"Eligible": "2026-01-01T09:00:00", "JobID": "8"}
    )
    assert log.jobs["submit_s"].to_list() == [0.0, 3540.0]
    assert [note for note in log.notes if note.startswith("job 7 could only start some time after")]


@pytest.mark.parametrize(
    ("job", "beginning"),
    [
        ({"Reservation": "maintenance"}, "2 jobs (first: 7) ran in a reservation, which is not read"),
        (
            {"ReqGRES": "gpu:2", "ReqTRES": "", "AllocTRES": "", "NCPUS": "4"},
            "2 jobs (first: 7) had generic resources in ReqGRES or AllocGRES, which are not read",
        ),
        ({"QOS": "high"}, "2 jobs (first: 7) ran under a quality of service (QOS)"),
        ({"Restarts": "2"}, "2 jobs (first: 7) ran again after a requeue"),
        ({"SubmitLine": "sbatch --array=1-9%3 a.sh"}, "2 jobs (first: 7) limited how many tasks"),
        ({"SubmitLine": "sbatch -d afterok:3 a.sh"}, "2 jobs (first: 7) had a dependency or a begin time"),
        ({"SubmitLine": "sbatch --begin=now+1hour a.sh"}, "2 jobs (first: 7) had a dependency or a begin"),
        ({"SubmitLine": "srun --nodelist n1 a"}, "2 jobs (first: 7) requested or excluded nodes by name"),
        ({"JobID": "5+0"}, "2 jobs (first: 5) requested several components (a heterogeneous job)"),
        ({"ReqTRES": "cpu=1,node=1,gres/shard=2"}, "2 jobs: gres/shard is requested: shares of GPUs are not"),
        (
            {"Partition": "cpu,gpu", "ReqTRES": "cpu=2,node=2"},
            "2 jobs: several partitions and several nodes are requested: built-in schedulers other than",
        ),
    ],
)
def test_what_is_not_modelled_is_counted_in_one_note(
    job: dict[str, str], beginning: str, tmp_path: Path
) -> None:
    other = {"JobID": "6+0" if "JobID" in job else "8"}
    log = read(tmp_path, job, job | other)
    assert sum(note.startswith(beginning) for note in log.notes) == 1


def test_a_partition_that_has_the_nodes_of_all_others_is_as_good_as_any(tmp_path: Path) -> None:
    log = read(tmp_path, {"Partition": "cpu,all", "ReqTRES": "cpu=2,node=2"})
    assert not log.notes


def test_deadlines_of_submissions_are_kept_relative_to_the_arrival(tmp_path: Path) -> None:
    lines = (
        "sbatch --deadline=2026-01-01T12:30 a.sh",  # of Berlin, whose 10:00 is 09:00 UTC
        "sbatch --deadline now+2hours a.sh",
        "sbatch --deadline=noon a.sh",
        "sbatch a.sh --deadline",
    )
    jobs = [{"JobID": str(k), "SubmitLine": line} for k, line in enumerate(lines, start=7)]
    log = read(tmp_path, *jobs, rules=Rules(time_zone="Europe/Berlin"))
    assert log.jobs["due_in_s"].to_list() == [3.5 * 3600, 2 * 3600, float("inf"), float("inf")]
    assert any(note.startswith("2 jobs had a deadline") and "leave the queue" in note for note in log.notes)
    assert any(note.startswith("1 job had a deadline") and "not read" in note for note in log.notes)
    assert "due_in_s" not in read(tmp_path, {"SubmitLine": "sbatch a.sh"}).jobs.columns


def test_a_deadline_counts_from_the_submission_of_a_job_that_was_eligible_later(tmp_path: Path) -> None:
    job = {"SubmitLine": "sbatch --deadline=now+90minutes a.sh", "Eligible": "2026-01-01T09:30:00"}
    assert read(tmp_path, job).jobs["due_in_s"].to_list() == [3600.0]
