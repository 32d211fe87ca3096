"""Experiments on a site whose nodes jobs share."""

from __future__ import annotations

import json
import shutil
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from benchmarks.slurm_site import SlurmSite, easy, write_accounting
from sil.trace.facts import TRACE, Fact
from sil.trace.reading import read_facts
from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

SITE = """
name = "shared"

[[machine_classes]]
name = "thin"

[[machine_classes]]
name = "fat"

[[machines]]
names = ["n[1-2]"]
machine_class = "thin"
processors = 4
memory_mb = 8000

[[machines]]
names = ["g1"]
machine_class = "fat"
processors = 8
memory_mb = 16000
gpus = {a100 = 2}

[[partitions]]
name = "cpu"
nodes = ["n[1-2]"]
max_time_s = 1000

[[partitions]]
name = "all"
nodes = ["n[1-2]", "g1"]

[[site_resources]]
name = "matlab"
amount = 2

[[job_classes]]
name = "core"
sequential_s = {thin = 100, fat = 50}
request = {partitions = ["cpu"]}

[[job_classes]]
name = "wide"
sequential_s = {thin = 60}
request = {nodes = 2, cores = 4, memory_mb = 4000, partitions = ["cpu"], time_limit_s = 40}

[[job_classes]]
name = "gpu"
sequential_s = {fat = 30}
request = {gpus = 1, gpu_types = ["a100"], cores = 2, partitions = ["all"]}

[[job_classes]]
name = "licensed"
sequential_s = {thin = 10, fat = 5}
request = {site_resources = {matlab = 1}, partitions = ["all"]}
"""


@pytest.fixture
def here(here: Path) -> Path:
    (here / "shared.toml").write_text(SITE)
    return here


def run(
    text: str, *options: str | Path, schedulers: tuple[str, ...] = ("fcfs",), site: str = "shared.toml"
) -> pl.DataFrame:
    """The jobs of an experiment, in the folder out."""
    names = ", ".join(f'"{name}"' for name in schedulers)
    Path("test.toml").write_text(f'name = "test"\nsite = "{site}"\nschedulers = [{names}]\n{text}')
    succeeded("run", "test.toml", "--out", "out", *options)
    return pl.read_csv("out/jobs.csv", schema_overrides={"allocated_resources": pl.String})


def refused(text: str, scheduler: str = "fcfs") -> str:
    Path("test.toml").write_text(f'name = "test"\nsite = "shared.toml"\nschedulers = ["{scheduler}"]\n{text}')
    return " ".join(the_sentence(sil("run", "test.toml", "--trust", "--out", "out")).split())


def mix(jobs: int, **shares: float) -> str:
    table = ", ".join(f"{name} = {share}" for name, share in shares.items())
    return f"[workload]\njobs = {jobs}\norder = 'cyclic'\nmix = {{{table}}}\n"


@pytest.mark.usefixtures("here")
def test_jobs_of_one_core_share_nodes() -> None:
    """Two nodes of four cores in their partition: the ninth job waits."""
    jobs = run(mix(9, core=1))
    assert jobs["starting_time"].to_list() == [0.0] * 8 + [100.0]
    assert jobs["allocated_resources"].to_list() == ["0"] * 4 + ["1"] * 4 + ["0"]
    assert set(jobs["queue"]) == {"cpu"}


@pytest.mark.usefixtures("here")
def test_a_run_takes_as_long_as_on_the_slowest_of_its_nodes() -> None:
    """A class without a time on a machine class counts with the mean of the others."""
    jobs = run(mix(4, core=1, licensed=1) + "[[queues]]\nname = 'cpu'\n[[queues]]\nname = 'all'\n")
    assert jobs["execution_time"].to_list() == [100.0, 10.0, 100.0, 10.0]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("setting", "run_s"), [("enforced", 40.0), ("ignored", 60.0)])
def test_jobs_end_at_their_time_limits_unless_these_are_ignored(setting: str, run_s: float) -> None:
    jobs = run(f"nodes = {{time_limits = '{setting}'}}\n" + mix(1, wide=1))
    assert jobs["execution_time"].to_list() == [run_s]


@pytest.mark.usefixtures("here")
def test_licences_limit_how_many_jobs_run_at_a_time() -> None:
    jobs = run(mix(5, licensed=1))
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 10.0, 10.0, 20.0]


@pytest.mark.usefixtures("here")
def test_a_job_of_many_tasks_is_not_refused_because_of_one_with_few() -> None:
    """Two nodes of four cores have room for eight tasks, whatever was requested before."""
    few = "[[job_classes]]\nname = 'few'\nsequential_s = {thin = 10}\n"
    few += "request = {tasks = 1, partitions = ['cpu']}\n"
    many = few.replace("few", "many").replace("tasks = 1", "tasks = 8")
    Path("shared.toml").write_text(SITE + few + many)
    jobs = run(mix(2, few=1, many=1))
    assert jobs["starting_time"].to_list() == [0.0, 10.0]


@pytest.mark.usefixtures("here")
def test_jobs_of_an_exclusive_partition_have_their_nodes_for_themselves() -> None:
    partition = 'name = "cpu"\n'
    Path("shared.toml").write_text(SITE.replace(partition, f"{partition}exclusive = true\n"))
    jobs = run(mix(3, core=1))
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 100.0]
    assert jobs["allocated_resources"].to_list() == ["0", "1", "0"]
    # Three jobs of 100 s on all four cores of a node, of 16 cores in 200 s.
    point = json.loads(Path("out/summary.json").read_text())["points"][0]
    assert point["schedulers"]["fcfs"]["utilisation"]["value"]["mean"] == pytest.approx(
        100 * 3 * 4 * 100 / (16 * 200)
    )


@pytest.mark.usefixtures("here")
def test_gpus_are_counted_and_their_waiting_is_a_metric() -> None:
    """Two GPUs and three jobs of 30 s: one GPU waits for 30 s."""
    jobs = run(mix(3, gpu=1))
    assert jobs["starting_time"].to_list() == [0.0, 0.0, 30.0]
    assert jobs["requested_gpus"].to_list() == [1.0] * 3
    printed = sil("run", "test.toml", "--out", "out", "--json").stdout
    assert '"gpu_waiting"' in printed
    assert '"gpu_utilisation"' in printed


@pytest.mark.usefixtures("here")
def test_a_queue_displaces_the_latest_runs_of_another() -> None:
    """Partition cpu is full with eight jobs of the queue low, when an urgent job arrives."""
    queues = "[[queues]]\nname = 'urgent'\npriority = 2\ndisplaces = ['low']\n[[queues]]\nname = 'low'\n"
    arrivals = "arrivals = {kind = 'poisson', jobs_per_quantum = 10.0}\nqueue_order = 'blocks'\n"
    jobs = run(mix(9, core=1) + arrivals + "queues = {low = 8, urgent = 1}\n" + queues)
    urgent, low = jobs.filter(queue="urgent"), jobs.filter(queue="low")
    assert urgent["waiting_time"].to_list() == [0.0]
    assert low["attempts"].to_list() == [1] * 7 + [2]
    displaced = low.row(7, named=True)
    assert displaced["starting_time"] == low["finish_time"].min()


@pytest.mark.usefixtures("here")
def test_a_node_that_fails_loses_its_runs_and_their_jobs_start_again() -> None:
    outage = "[[outages]]\nmachine = 'n1'\nfrom_s = 30\nto_s = 500\n"
    jobs = run(outage + mix(1, core=1))
    assert jobs["attempts"].to_list() == [2]
    assert jobs["allocated_resources"].to_list() == ["1"]
    assert jobs["finish_time"].to_list() == [130.0]


@pytest.mark.usefixtures("here")
def test_schedulers_are_compared_on_the_same_jobs() -> None:
    text = (
        "replications = 2\nrun_times = {kind = 'gamma', coefficient_of_variation = 0.5}\n"
        "[workload]\njobs = 60\narrivals = {kind = 'poisson', jobs_per_quantum = 2.0}\n"
    )
    schedulers = ("fcfs", "easy", "conservative", "rigid(backfilling=easy, selection=best_fit)")
    jobs = run(text, schedulers=schedulers).filter(replication=1)
    of = {name: part for (name,), part in jobs.group_by("scheduler")}
    arrivals = {name: part.sort("job_id")["submission_time"].to_list() for name, part in of.items()}
    assert len(set(map(tuple, arrivals.values()))) == 1


@pytest.mark.usefixtures("here")
def test_results_and_learning_record_runs_for_the_machine_class_of_their_nodes() -> None:
    succeeded("db", "init")
    succeeded("db", "import", "shared.toml")
    run(mix(4, core=1, gpu=1), "--site", "site.db", "--learn")
    query = (
        "SELECT j.name, m.name, count(*) FROM execution_history h "
        "JOIN job_class j ON j.id = h.job_class_id JOIN machine_class m ON m.id = h.machine_class_id "
        "GROUP BY 1, 2 ORDER BY 1"
    )
    for database in ("out/results.db", "site.db"):
        with sqlite3.connect(database) as connection:
            assert connection.execute(query).fetchall() == [("core", "thin", 2), ("gpu", "fat", 2)]
    assert "agree with its history of 4 runs" in sil("db", "check").stdout


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "scheduler", "sentence"),
    [
        (mix(1, core=1), "sjs", "maps jobs to machines"),
        (mix(1, core=1), "batsim: sleep 1", "Batsim's protocol has no requests"),
        ("replications = 2\n[log]\nfile = 'sacct.txt'\n", "fcfs", "all of a log is one replication"),
        ("[log]\nfile = 'sacct.txt'\nweeks = 1\n", "fcfs", "whole weeks or more"),
        ("[history]\nweeks = 2\n", "fcfs", "name its database with --site"),
        ("[history]\nweeks = 2\njobs = 5\n", "fcfs", "either jobs or weeks"),
        ("planned_starts = 'kept'\n" + mix(1, core=1), "fcfs", "planned_starts has no effect on nodes"),
        (
            mix(1, core=1) + "[grid]\n'preemption.gain' = ['net', 'own']\n",
            "fcfs",
            "grid.preemption.gain has no effect on nodes",
        ),
        ("[log]\nfile = 'sacct.txt'\n[workload]\njobs = 1\n", "fcfs", "one of the tables"),
        (
            mix(1, core=1) + "[[outages]]\nmachine = 'n9'\nfrom_s = 1\nto_s = 2\n",
            "fcfs",
            "has no machine 'n9'",
        ),
    ],
)
def test_an_experiment_that_does_not_suit_nodes_is_refused(text: str, scheduler: str, sentence: str) -> None:
    header = "JobID|User|Partition|Submit|Start|End|State|ReqTRES"
    at, end = "2026-01-01T10:00:00", "2026-01-01T11:00:00"
    row = f"1|ann|cpu|{at}|{at}|{end}|COMPLETED|cpu=1,node=1"
    Path("sacct.txt").write_text(f"{header}\n{row}\n")
    assert sentence in refused(text, scheduler)


@pytest.mark.usefixtures("here")
def test_the_scheduler_of_a_queue_is_not_used_on_nodes_and_a_note_says_so() -> None:
    run(mix(1, core=1) + "[[queues]]\nname = 'own'\nscheduler = 'sjs'\n")
    told = " ".join(sil("run", "test.toml", "--out", "again").stderr.split())
    assert "the scheduler 'sjs' of the queue 'own' is not used: on nodes" in told


@pytest.mark.usefixtures("here")
def test_mapping_schedulers_map_jobs_of_one_core_to_slots_where_the_site_declares_them() -> None:
    Path("slots.toml").write_text(SITE.replace("processors = 4", "processors = 4\nslots = 4"))
    jobs = run(mix(9, core=1), schedulers=("mct", "sjs"), site="slots.toml")
    for _, of in jobs.group_by("scheduler"):
        assert sorted(of["starting_time"]) == [0.0] * 9  # nine of its nine slots, one on the fat node
    Path("test.toml").write_text(
        "name = 'test'\nsite = 'slots.toml'\nschedulers = ['mct']\n" + mix(1, wide=1)
    )
    sentence = " ".join(the_sentence(sil("run", "test.toml", "--out", "out")).split())
    assert "map each job to one slot of a machine, but the job class 'wide' requests 2 nodes" in sentence


# -- accounting, after its import -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The accounting of a generated Slurm site and the mean wait of its own scheduler."""
    folder, site = tmp_path_factory.mktemp("slurm"), SlurmSite()
    jobs = site.jobs(3_000, 1, 0.85)
    starts, places, _ = easy(site, jobs)
    (folder / "slurm.conf").write_text(site.slurm_conf)
    write_accounting(folder / "sacct.txt", site, jobs, starts, places)
    waits = [start - job.submit_s for start, job in zip(starts, jobs, strict=True)]
    return folder, sum(waits) / len(waits)


@pytest.fixture(scope="module")
def database_to_copy(generated: tuple[Path, float]) -> Path:
    """With the accounting in it."""
    folder, _ = generated
    path = folder / "site.db"
    for command in (
        ("init",),
        ("import-slurm-conf", folder / "slurm.conf"),
        ("import-sacct", folder / "sacct.txt"),
    ):
        succeeded("db", *command, "--db", path if command == ("init",) else f"{path}#made")
    return path


@pytest.fixture
def imported(generated: tuple[Path, float], database_to_copy: Path, here: Path) -> float:
    """The accounting is in site.db; returns the mean wait."""
    folder, wait_s = generated
    for path in (folder / "sacct.txt", database_to_copy):
        shutil.copy(path, here)
    return wait_s


def test_jobs_may_arrive_at_random_as_in_the_past(imported: float) -> None:
    """The classes of the past, at half its rate, have short waits."""
    jobs = run("[history]\njobs = 400\nload = 0.5\n", "--site", "site.db", schedulers=("easy",))
    assert len(jobs) == 400
    assert set(jobs["queue"]) == {"cpu", "gpu", "all"}
    assert jobs["waiting_time"].mean() < imported


@pytest.mark.parametrize("table", ["[log]\nfile = 'sacct.txt'\n", "[history]\n"])
def test_after_its_import_the_simulated_wait_is_that_of_the_accounting(imported: float, table: str) -> None:
    jobs = run(table, "--site", "site.db", schedulers=("easy", "easy_sjbf"))
    waits = {name: part["waiting_time"].mean() for (name,), part in jobs.group_by("scheduler")}
    assert waits["easy"] == pytest.approx(imported, rel=0.1)
    assert waits["easy_sjbf"] == pytest.approx(imported, rel=0.6)


@pytest.mark.usefixtures("here")
def test_replications_draw_weeks_that_are_the_same_for_all_schedulers() -> None:
    """In week k, as many jobs arrive on Monday at k o'clock."""
    begin, hour = datetime(2026, 1, 5), timedelta(hours=1)
    arrivals_of_weeks = [
        (f"{week}{k}", begin + timedelta(weeks=week - 1) + week * hour)
        for week in range(1, 5)
        for k in range(week)
    ]
    arrivals_of_weeks.append(("99", begin + timedelta(weeks=4) + 2 * hour))  # the fourth week is whole
    rows = [
        f"{number}|ann|all|{at.isoformat()}|{at.isoformat()}|{(at + hour).isoformat()}|COMPLETED|cpu=1,node=1"
        for number, at in arrivals_of_weeks
    ]
    header = "JobID|User|Partition|Submit|Start|End|State|ReqTRES"
    Path("sacct.txt").write_text("\n".join([header, *rows]) + "\n")
    jobs = run("replications = 3\n[log]\nfile = 'sacct.txt'\nweeks = 2\n", schedulers=("fcfs", "easy"))
    arrivals = {
        key: part.sort("job_id")["submission_time"].to_list()
        for key, part in jobs.group_by("replication", "scheduler")
    }
    for replication in range(3):
        assert arrivals[replication, "fcfs"] == arrivals[replication, "easy"]
        hours = [at_s / 3600 for at_s in arrivals[replication, "fcfs"]]
        # Times count from the first submission of the log, at one o'clock.
        weeks = [1 + round(hours[0]), 1 + round(hours[-1] - 7 * 24)]
        assert hours == [weeks[0] - 1.0] * weeks[0] + [7 * 24 + weeks[1] - 1.0] * weeks[1]
    assert len({tuple(arrivals[replication, "fcfs"]) for replication in range(3)}) > 1


@pytest.mark.usefixtures("imported")
def test_a_replay_on_the_site_of_a_database_is_that_on_its_configuration(
    generated: tuple[Path, float],
) -> None:
    folder, _ = generated
    arguments = ("replay", "sacct.txt", "--scheduler", "easy", "--jobs", "0:500", "--no-report")
    for where, nodes in (("a", ("--site", "site.db")), ("b", ("--nodes", folder / "slurm.conf"))):
        succeeded(*arguments, *nodes, "--out", where)
    starts = [
        read_facts(Path(where, "easy", TRACE)).filter(pl.col("event") == Fact.RUN_STARTED) for where in "ab"
    ]
    assert starts[0].equals(starts[1])
