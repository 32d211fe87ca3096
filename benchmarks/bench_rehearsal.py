"""Does a rehearsal find planted regressions of Slurm's settings, and none where both sides are equal?

Five months are generated, with the starts that the controller decides under CONF. Each is rehearsed with two
faulty files, which lengthen waits or refuse jobs by construction, and with one that says the same in other
words. Then a week of 19,579 jobs with fair share and QOS is replayed, for the time that it takes. Run with
`python -m benchmarks.bench_rehearsal [planted] [week]`; by default, both.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench_slurm import replayed
from benchmarks.record import keep
from sil.rehearsal.run import JobsVerdict
from sil.workload.accounting import read_accounting
from sil.workload.settings import Rules
from site_db.site_file.machine_names import fold
from site_db.slurm_conf import read_cluster

SEED = 1
ORIGIN_S = 1_767_225_600
JOBS = 200
"""Of a month."""
EVERY_S = 1_250
"""Between two of them, on average; they offer a load of 0.85."""
WEEK_JOBS = 19_579
STEP_S = 30.0
COLUMNS = (
    "JobID|User|Account|QOS|JobName|Partition|Submit|Eligible|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList|"
    "SubmitLine"
)
CONF = """ClusterName=ours
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=500
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_interval=30
PriorityType=priority/multifactor
PriorityWeightAge=1000
Licenses=matlab:5
NodeName=n[1-4] CPUs=64 CoresPerSocket=64 RealMemory=64000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=14-0
PartitionName=long MaxTime=14-0 Nodes=n[1-2]
"""
WEEK_CONF = """ClusterName=ours
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_window=2880,bf_interval=60,bf_continue,bf_max_job_test=500,default_queue_depth=200
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityDecayHalfLife=7-0
PriorityWeightAge=1000
PriorityWeightFairshare=10000
PriorityWeightQOS=5000
NodeName=n[001-064] CPUs=64 CoresPerSocket=64 RealMemory=256000
PartitionName=main Nodes=ALL Default=YES MaxTime=7-0
"""
WEEK_QOS = "Name|Priority|MaxJobsPU\nnormal|10|\nhigh|100|20\nlow|1|\n"


class Case(NamedTuple):
    """A change of CONF, and the setting that a rehearsal is to name; none if it changes nothing."""

    what: str
    before: str
    after: str
    setting: str = ""


LATER = "sched_min_interval=1800000000,defer"
MAIN, LONG = "PartitionName=main ", "PartitionName=long "
PLANTED = (
    Case("half of a partition's nodes forgotten", "main Nodes=n[1-4]", "main Nodes=n[3-4]", "main: Nodes"),
    Case("a removed option", "DefMemPerCPU=500\n", "", "DefMemPerCPU"),
    Case("days written as minutes", f"{LONG}MaxTime=14-0", f"{LONG}MaxTime=14", "long: MaxTime"),
    Case("whole nodes for all jobs", MAIN, f"{MAIN}OverSubscribe=EXCLUSIVE ", "main: OverSubscribe"),
    Case("a default in another unit", "DefMemPerCPU=500", "DefMemPerCPU=4000", "DefMemPerCPU"),
    Case("a limit of CPUs on a node", MAIN, f"{MAIN}MaxCPUsPerNode=32 ", "main: MaxCPUsPerNode"),
    Case("a limit of nodes", MAIN, f"{MAIN}MaxNodes=1 ", "main: MaxNodes"),
    Case("fewer licences", "matlab:5", "matlab:1", "Licenses"),
    Case("a partition that is down", LONG, f"{LONG}State=DOWN ", "long: State"),
    Case("a cycle each half hour", "bf_interval=30", f"bf_interval=1800,{LATER}", "SchedulerParameters"),
)
"""Fewer CPUs, less memory, or fewer licences than a busy cluster needs; jobs that no node may run; later
cycles."""
AGE, MATLAB = "PriorityWeightAge=1000", "Licenses=matlab:5"
EQUAL = (
    Case("a comment", "ClusterName=ours", "# The present one\nClusterName=ours"),
    Case("defaults written out", "bf_interval=30", "bf_interval=30,bf_resolution=60,default_queue_depth=100"),
    Case("a state written out", LONG, f"{LONG}State=UP OverSubscribe=NO "),
    Case("nodes in other words", "main Nodes=n[1-4]", "main Nodes=n[1-2],n3,n4"),
    Case("another order", f"{AGE}\n{MATLAB}", f"{MATLAB}\n{AGE}"),
)


class Job(NamedTuple):
    submit_s: int
    run_s: int
    cpus: int
    user: int
    account: str
    partition: str
    limit_min: int
    qos: str = "normal"
    line: str = "sbatch job.sh"
    start_s: int = -1
    nodes: str = ""

    def row(self, number: int, tres: str) -> str:
        start_s = self.submit_s if self.start_s < 0 else self.start_s
        times = (self.submit_s, self.submit_s, start_s, start_s + self.run_s)
        return "|".join(
            (
                *(str(number), f"u{self.user}", self.account, self.qos, "job", self.partition),
                *(str(ORIGIN_S + time_s) for time_s in times),
                *("COMPLETED", str(self.limit_min), tres, tres, self.nodes, self.line),
            )
        )


def written(
    folder: Path, jobs: Sequence[Job], conf: str, mem_per_cpu: int | None = None
) -> tuple[Path, Path]:
    """The files of accounting and configuration."""
    folder.mkdir(exist_ok=True)
    rows = []
    for number, job in enumerate(jobs, start=1):
        memory = "" if mem_per_cpu is None else f"mem={job.cpus * mem_per_cpu}M,"
        rows.append(
            job.row(number, f"cpu={job.cpus},{memory}node={max(1, job.cpus // 64)},billing={job.cpus}")
        )
    (folder / "sacct.txt").write_text("\n".join((COLUMNS, *rows, "")))
    (folder / "slurm.conf").write_text(conf)
    return folder / "sacct.txt", folder / "slurm.conf"


def month(seed: int) -> Iterator[Job]:
    """Twelve users of three accounts; a fifth of the jobs need a licence, some two nodes."""
    random_, at_s = random.Random(seed), 0
    for _ in range(JOBS):
        at_s += int(random_.expovariate(1 / EVERY_S))
        user, run_s = random_.randrange(12), int(min(random_.lognormvariate(8.2, 1.3), 170_000))
        licence = " -L matlab" if random_.random() < 0.2 else ""
        yield Job(
            at_s,
            run_s,
            random_.choice((1, 2, 4, 8, 16, 32, 64, 128)),
            user,
            ("phys", "chem", "bio")[user % 3],
            random_.choice(("main", "main", "main", "long")),
            next(limit for limit in (60, 240, 1440, 2880) if 60 * limit >= run_s),
            line=f"sbatch{licence} job.sh",
        )


def week() -> Iterator[Job]:
    """120 users of nine accounts under three QOS, on 64 nodes at 80 % load."""
    random_ = random.Random(SEED)
    for submit_s in sorted(random_.randrange(7 * 86_400) for _ in range(WEEK_JOBS)):
        user = min(119, int(random_.expovariate(1 / 25)))
        run_s = min(30 + int(random_.lognormvariate(7.4, 1.4)), 86_000)
        cpus = random_.choice((1, 1, 1, 2, 4, 8, 16, 32, 64, 128))
        yield Job(
            submit_s,
            run_s,
            cpus,
            user,
            f"a{user % 9}",
            "main",
            random_.choice([limit for limit in (60, 240, 1440) if 60 * limit >= run_s]),
            random_.choices(("normal", "high", "low"), (8, 1, 2))[0],
            nodes="n[001-002]" if cpus > 64 else "n001",
        )


def sil(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sil", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def decided(folder: Path, seed: int) -> tuple[Path, Path]:
    """A month with the starts and nodes that the controller gives its jobs."""
    jobs = [*month(seed)]
    log, conf = written(folder, jobs, CONF)
    out = folder / "decided"
    sil("replay", log, "--nodes", conf, "--scheduler", f"slurm: {conf}", "--slurm-step", STEP_S, "--out", out)
    with next(out.glob("slurm*/jobs.csv")).open() as file:
        rows = {int(row["job_id"]): row for row in csv.DictReader(file)}
    begun_s = jobs[0].submit_s
    for number, row in rows.items():
        nodes = [
            f"n{node + 1}"
            for part in row["allocated_resources"].split()
            for first, _, last in [part.partition("-")]
            for node in range(int(first), int(last or first) + 1)
        ]
        start_s = begun_s + round(float(row["starting_time"]))
        jobs[number - 1] = jobs[number - 1]._replace(start_s=start_s, nodes=",".join(fold(nodes)))
    return written(folder, jobs, CONF)


def trial(folder: Path, seed: int, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """A month rehearsed with some changes of its settings: what is found of each."""
    log, conf = decided(folder, seed)
    files = [folder / f"case{k}.conf" for k, _ in enumerate(cases)]
    for path, case in zip(files, cases, strict=True):
        assert CONF.count(case.before) == 1, case
        path.write_text(CONF.replace(case.before, case.after))
    variants = [word for path in files for word in ("--conf", path)]
    found = json.loads(
        sil("slurm", "rehearse", log, "--conf", conf, *variants, "--out", folder / "out", "--json")
    )
    for case, variant in zip(cases, found["variants"], strict=True):
        wait = next(each for each in variant["effects"] if each["quantity"] == "waiting_time")
        settings = [row["name"] for row in variant["settings"]]
        yield {
            "what": case.what,
            "planted": bool(case.setting),
            "reproduces": found["reproduction"]["use"],
            "verdict": variant["verdict"],
            "named": case.setting in settings,
            "refused_more": variant["refused_more"],
            "wait_before_s": wait["before"],
            "wait_change_s": wait["difference"]["mean"],
            "settings": settings,
        }


def trials(folder: Path) -> Iterator[dict[str, Any]]:
    for k, equal in enumerate(EQUAL):
        yield from trial(folder / f"month{k}", SEED + k, (*PLANTED[2 * k : 2 * k + 2], equal))


def week_took(folder: Path) -> dict[str, Any]:
    path, conf = written(folder, [*week()], WEEK_CONF, mem_per_cpu=1000)
    (folder / "qos.txt").write_text(WEEK_QOS)
    log = read_accounting(path, read_cluster(conf), Rules(time_zone="UTC"))
    took = replayed(log, f"slurm: {conf}", STEP_S, runs=1)
    return {"what": f"a week of {WEEK_JOBS:,} jobs", **took._asdict()}


def main() -> None:
    chosen, found = sys.argv[1:] or ["planted", "week"], []
    with tempfile.TemporaryDirectory() as folder:
        for row in trials(Path(folder)) if "planted" in chosen else ():
            print(json.dumps(row), flush=True)
            found.append(row)
        if "week" in chosen:
            found.append(week_took(Path(folder) / "week"))
            print(json.dumps(found[-1]), flush=True)
    for is_planted in (True, False):
        rows = [row for row in found if row.get("planted") is is_planted]
        if not rows:
            continue
        worse = [row for row in rows if row["verdict"] != JobsVerdict.NONE and row["named"] is is_planted]
        print(f"{len(worse)} of {len(rows)} {'planted' if is_planted else 'equal'} cases found")
    print(f"Kept in {keep('rehearsal', SEED, found).name}.")


if __name__ == "__main__":
    main()
