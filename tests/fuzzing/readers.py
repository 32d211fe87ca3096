"""All readers of inputs, each with valid inputs to mutate."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scheduler.durability.journal import JournalEntry, entry_of
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.registry import resolve
from sil.batsim.messages import read_reply
from sil.batsim.serving import ServedScheduler
from sil.experiment import replay_folder
from sil.experiment.matrix import read_problem
from sil.planning.plan_file import Plan
from sil.report.origin import origin_terms
from sil.runs.on_log import Replay
from sil.settings.experiment_file import Experiment
from sil.site.logs import read_log
from sil.slurm.accounting import Accounting
from sil.slurm.configuration import read_configuration
from sil.slurm.settings.selection import Surroundings
from sil.swarm.case import Case, drawn
from sil.trace.facts import TIMINGS_SCHEMA, RunDescription, write_trace
from sil.trace.reading import read_facts, read_resource_names, read_table, read_trace
from sil.workers.executor import Inline, Listener
from sil.workload import tables
from sil.workload.settings import Overrun, Rules, TooLarge
from sil.workload.swf import read_swf
from site_db.files import toml_file
from site_db.files.access import open_lines
from site_db.jobs import recording, swf
from site_db.jobs.logged import Tally
from site_db.jobs.sacct import reader as sacct
from site_db.journals import FileJournal
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.importing import read_site_file
from site_db.slurm.policy import read_policy
from site_db.slurm_conf import read_cluster
from tests.scheduler.durability.test_journal_text import OF_VERSION_1
from tests.sil.experiment.replaying import replay_all

FIXTURES = Path(__file__).parents[2] / "fixtures"
Read = Callable[[Path], object]


@dataclass(frozen=True)
class Reader:
    """A reader: the name of the file that it is given, the valid files, and how it is called."""

    file: str
    seeds: Callable[[], Sequence[bytes]]
    read: Read
    may_be_compressed: bool = True


def fixtures(pattern: str) -> Callable[[], Sequence[bytes]]:
    return cache(lambda: [path.read_bytes() for path in sorted(FIXTURES.glob(pattern))])


def texts(*seeds: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [seed.encode() for seed in seeds]


SLURM_CONF = """# a cluster
SelectTypeParameters=CR_Core_Memory
Licenses=matlab:5,ansys@server:2
NodeName=DEFAULT State=UNKNOWN ThreadsPerCore=2
NodeName=n[01-04,7] CPUs=16 RealMemory=64000 Gres=gpu:a100:4,shard:8 Feature=fast,new
NodeName=m1 Sockets=2 CoresPerSocket=8 RealMemory=1000 CoreSpecCount=1 State=DOWN \\
  MemSpecLimit=10
DownNodes=n[01-02] State=DRAIN
PartitionName=DEFAULT MaxTime=2-00:00:00
PartitionName=batch Nodes=n[01-04,7] MaxNodes=3 DefaultTime=30 OverSubscribe=EXCLUSIVE
PartitionName=all Nodes=ALL State=UP
"""
SCONTROL = """NodeName=n1 Arch=x86_64 CoresPerSocket=8
   CPUAlloc=0 CPUTot=16 CPULoad=0.1
   AvailableFeatures=fast ActiveFeatures=fast
   Gres=gpu:a100:2(S:0)
   RealMemory=1000 AllocMem=0 Sockets=1 Boards=1
   State=IDLE+DRAIN ThreadsPerCore=2 Partitions=batch
"""
SCONTROL_JSON = """{"nodes": [{"name": "n1", "cpus": 16, "sockets": 1, "cores": 8, "threads": 2,
"real_memory": {"set": true, "infinite": false, "number": 1000}, "gres": "gpu:a100:2(S:0)",
"features": ["fast"], "state": ["IDLE", "DRAIN"], "partitions": ["batch"]}],
"partitions": [{"name": "batch", "maximums": {"time": 5}}], "sinfo": []}
"""
PRIORITIES = """PriorityType=priority/multifactor
PriorityWeightTRES=CPU=1000,Mem=2000,GRES/gpu=3.5
PriorityDecayHalfLife=14-0
PriorityFlags=NO_FAIR_TREE,NO_NORMAL_QOS
AccountingStorageEnforce=limits,qos
PartitionName=DEFAULT PriorityTier=3 TRESBillingWeights="CPU=1.0,Mem=0.25G"
PartitionName=a QOS=high
"""
DUMP = """# a tree
QOS - 'high':GrpTRES=cpu=3,gres/gpu:a100=2:MaxJobsPU=4
Cluster - 'c':Fairshare=1:QOS='normal,high'
Parent - 'root'
Account - 'physics':Description='It: all':Fairshare=parent:GrpTRES=cpu=10:GrpJobs=3
Parent - 'physics'
User - 'ann':DefaultAccount='physics':MaxWall='1-00:00:00':QOS='+high'
"""
TOPOLOGY = """- topology: fat
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: n[01-02]
- topology: racks
  block:
    block_sizes: [2, 4]
    blocks:
      - block: b1
        nodes: n[01-04]
- {topology: plain, flat: true}
"""
ONE_TOPOLOGY = (
    TOPOLOGY.replace("  cluster_default: true\n", ""),
    TOPOLOGY[TOPOLOGY.index("- topology: racks") :],
)
SHARES = "Account|User|RawShares|RawUsage\nroot|||7\n physics|ann|1|7\n"
QOS = "Name|Priority|Preempt|GrpTRES|MaxWall\nnormal|0|||\nhigh|1000|normal|cpu=3|1-00:00:00\n"
CLEAN_SWF = "; MaxProcs: 8\n" + "".join(
    f"{k} {10 * k} 5 100 4 -1 -1 4 200 -1 1 3 1 7 1 2 -1 -1\n" for k in range(1, 9)
)
RESOURCES = """JobIDRaw|User|Account|QOS|JobName|Partition|Submit|Start|End|State|ElapsedRaw|Timelimit|ReqTRES|AllocTRES|ReqMem|NNodes|NodeList
7|ann|phys|high|a.sh|batch,all|1700000000|1700000100|1700000200|COMPLETED|100|1-00:00:00|cpu=4,mem=16G,node=2,gres/gpu:a100=2,license/matlab=1|cpu=8,mem=16G,node=2|4Gc|2|n[01-02]
8|bob|chem||b.sh|batch|1700000000|1700000100|1700000300|TIMEOUT|200|00:03:00|cpu=1,mem=500M,node=1,gres/shard=2||16Gn|1|n03
9|bob|chem||c|d|all|1700000000|1700000100|1700000300|CANCELLED by 7|200|UNLIMITED|billing=3,cpu=1,bb/cray=5G||0|1|None assigned
"""  # noqa: E501
RESOURCES_IN_JSON = """{"meta": {"plugin": {"data_parser": "v0.0.40"}}, "jobs": [
 {"job_id": 7, "array": {"job_id": 3, "task_id": {"set": true, "infinite": false, "number": 1}}, "user": "ann",
  "allocation_nodes": 2, "state": {"current": ["COMPLETED"]}, "nodes": "n[01-02]", "partition": "batch", "name": "a",
  "time": {"submission": 1700000000, "eligible": 1700000050, "start": 1700000100, "end": 1700000200,
   "elapsed": 100, "limit": {"set": true, "infinite": false, "number": 60}}, "constraints": "fast|new",
  "tres": {"requested": [{"type": "cpu", "name": "", "count": 4}, {"type": "mem", "name": "", "count": 500}]}},
 {"job_id": 8, "het": {"job_id": 8, "job_offset": 0}, "state": {"current": "FAILED"}, "time": {"start": 1700000100,
   "end": 1700000200}, "tres": {"allocated": [{"type": "gres", "name": "gpu:a100", "count": 1}]}}]}"""  # noqa: E501
RUNS = (
    "job_class,resource,started_unix_s,run_time_s,user,size,number,state,predicted,members\n"
    'short,f1,1700000000,12.5,ann,2,1,done,"[]",\nshort,f1,1700000100,14,bob,,2,done,,\n'
    "long,c1,1700000200,1e3,bob,0.5,3,done,,4\nlong,,,,bob,,4,waiting,,\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,4000,1000,0,\nb,96000,300000,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
    "p,2500,512,1,300,T4|V100,100,400,150\nq,1000,1,0,0,,0,20,\nr,1000,1,2,1000,,0,25,10\n"
)
WORKLOAD = """{"nb_res": 8, "jobs": [
 {"id": "1", "subtime": 0, "walltime": 60, "res": 4, "profile": "delay-50", "user": 3},
 {"id": "w0!2", "subtime": 1.5, "res": 1, "profile": "short"}],
 "profiles": {"delay-50": {"type": "delay", "delay": 50}, "short": {"type": "delay", "delay": 0.2}}}"""
REPLY = """{"now": 5.0, "events": [
 {"timestamp": 5.0, "type": "EXECUTE_JOB", "data": {"job_id": "w0!1", "alloc": "0-3 5"}},
 {"timestamp": 5.0, "type": "REGISTER_JOB", "data": {"job_id": "d!1", "job": {"res": 1, "profile": "p"}}},
 {"timestamp": 5.0, "type": "CALL_ME_LATER", "data": {"timestamp": 9.0}},
 {"timestamp": 5.0, "type": "KILL_JOB", "data": {"job_ids": ["w0!1"]}}]}"""
REQUESTS = """{"now": 0.0, "events": [
 {"timestamp": 0, "type": "SIMULATION_BEGINS", "data": {"nb_resources": 8}},
 {"timestamp": 0, "type": "JOB_SUBMITTED", "data": {"job_id": "a", "job": {"res": 8, "walltime": 50.0}}},
 {"timestamp": 0, "type": "JOB_SUBMITTED", "data": {"job_id": "b", "job": {"res": 1, "walltime": 5}}}]}
{"now": 20.0, "events": [{"timestamp": 10.0, "type": "JOB_SUBMITTED",
 "data": {"job_id": "c", "job": {"res": 3, "walltime": 50.0}}}]}
{"now": 50.0, "events": [{"timestamp": 50.0, "type": "JOB_COMPLETED", "data": {"job_id": "a"}}]}
{"now": 60.0, "events": [{"timestamp": 60.0, "type": "REQUESTED_CALL", "data": {}}]}"""


def _saved(*arrays: np.ndarray[Any, Any]) -> Callable[[], Sequence[bytes]]:
    def made() -> Sequence[bytes]:
        found = []
        for array in arrays:
            file = io.BytesIO()
            np.save(file, array)
            found.append(file.getvalue())
        return found

    return cache(made)


def _served(name: str) -> ServedScheduler:
    spec = resolve(name)
    return ServedScheduler(lambda _: spec.make(), UserEstimates(), spec.memoryless)


def _serve(path: Path) -> None:
    """The messages of a simulation, one per paragraph, to a scheduler with reservations."""
    served = [_served(name) for name in ("conservative", "easy")]
    for message in path.read_bytes().split(b"]}\n"):
        whole = message if message.rstrip().endswith(b"]}") else message + b"]}"
        for scheduler in served:
            json.loads(scheduler.answer(whole), parse_constant=_is_no_json)


def _is_no_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@cache
def _cluster() -> SiteNodes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "slurm.conf"
        path.write_text(SLURM_CONF)
        return read_cluster(path)


def _topology(path: Path) -> object:
    """The nodes of a `slurm.conf` beside it."""
    conf = path.with_name("slurm.conf")
    conf.write_text(SLURM_CONF)
    return read_cluster(conf)


@cache
def _replayed() -> Path:
    """The folder of a short replay. It lives as long as the process."""
    folder = TemporaryDirectory(prefix="sil-fuzzing-")
    _FOLDERS.append(folder)
    out = Path(folder.name)
    log = read_swf(FIXTURES / "logs" / "archive.swf", Rules(), 64)
    replay_all(Replay(log), ["easy", "fcfs"], out, Inline(), False, Listener())
    return out


_FOLDERS: list[TemporaryDirectory[str]] = []


def _of_a_replay(name: str) -> Callable[[], Sequence[bytes]]:
    return cache(lambda: [path.read_bytes() for path in sorted(_replayed().rglob(name))])


def _folder_with(name: str) -> Read:
    """Reads the results of a replay in which one file is replaced."""

    def read(path: Path) -> object:
        folder = path.parent / "results"
        if not folder.is_dir():
            shutil.copytree(_replayed(), folder)
        to = next(iter(sorted(folder.rglob(name))))
        to.write_bytes(path.read_bytes())
        return replay_folder.read(folder)

    return read


def _lines(read: Callable[..., object]) -> Read:
    def all_of(path: Path) -> object:
        with open_lines(path) as lines:
            return list(read(lines, path, Tally()))  # type: ignore[call-overload]

    return all_of


@cache
def _of_an_experiment() -> Sequence[bytes]:
    """A trace with the metadata that `sil run` writes."""
    path = _replayed() / "of-an-experiment.parquet"
    of_site = {"site": "s", "machines": ("a", "b"), "machine_classes": ("k", "k"), "clusters": ()}
    drawn = {"job_classes": ("x",), "workload": "3 jobs", "points": ({},)}
    facts = read_facts(next(_replayed().rglob("trace.parquet")))
    made: dict[str, Any] = {"version": "1", "scheduler_source": "2", "seed": 1, "replications": 1}
    made["schedulers"] = tuple(facts["scheduler"].unique())
    description = RunDescription(experiment="e", description="", **of_site, **drawn, **made)  # type: ignore[arg-type]
    write_trace(path, facts, description)
    return [path.read_bytes()]


def _log(rules: Rules = Rules(), processors: int | None = None, on_nodes: bool = False) -> Read:  # noqa: B008
    return lambda path: read_log(path, rules, processors, _cluster() if on_nodes else None)


def _toml(model: type[toml_file.Table]) -> Read:
    return lambda path: toml_file.read(path, model)


@cache
def _cases() -> Sequence[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.json"
        drawn(7).write(path)
        return [path.read_bytes()]


def _journals() -> Sequence[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        with FileJournal(path) as journal:
            journal.append(entry_of(OF_VERSION_1))
            journal.append(JournalEntry("run_round", (), (1.0,), ()))
        return [path.read_bytes()]


def _journal(path: Path) -> object:
    with FileJournal(path) as journal:
        return list(journal.entries())


def _matrix(path: Path) -> object:
    return read_problem(path, None)


CONTROLLER = Surroundings("/run", "me", 1, 2)
CUT = Rules(overrun=Overrun.CUT, too_large=TooLarge.CLIP)
SWF = fixtures("logs/*.swf")
IN_CSV = RESOURCES.replace(",", "\t").replace("|", ",").replace("c,d", '"c,\n""d"')
SACCT = cache(lambda: [*fixtures("logs/*.txt")(), *texts(RESOURCES, IN_CSV, RESOURCES_IN_JSON)()])
ARRAYS = _saved(np.ones((3, 2)), np.ones((2, 2), "i4"), np.ones((2, 2), ">f4"), np.ones((2, 1), "c16"))
HCSP = "2 3 0\n1\n2.5\n3\n4\n5e2\ninf\n"
ORIGIN = '{"command": "a", "versions": {"b": "1"}, "inputs": {"c": "d"}, "host": "e"}'
READERS = {
    "swf": Reader("log.swf", SWF, _log(CUT)),
    "swf, strict, of a size": Reader("log.swf", texts(CLEAN_SWF), _log(Rules(True), 8)),
    "swf on nodes": Reader("log.swf", SWF, _log(CUT, on_nodes=True)),
    "swf for a database": Reader("log.swf", SWF, _lines(swf.read_swf)),
    "sacct": Reader("log.txt", SACCT, _log(on_nodes=True)),
    "sacct for a database": Reader("log.txt", SACCT, _lines(sacct.read_sacct)),
    "batsim workload": Reader("log.json", texts(WORKLOAD), _log()),
    "pods": Reader("pods.csv", texts(PODS), _log(on_nodes=True)),
    "nodes of pods": Reader("nodes.csv", texts(NODES), tables.read_nodes),
    "runs": Reader("runs.csv", texts(RUNS), lambda path: recording.read(path, 2e9)),
    "slurm.conf": Reader("slurm.conf", texts(SLURM_CONF, SCONTROL, SCONTROL_JSON), read_cluster),
    "slurm.conf of a controller": Reader(
        "slurm.conf", texts(SLURM_CONF), lambda path: read_configuration(path).text(CONTROLLER)
    ),
    "qos": Reader("qos.txt", texts(QOS), lambda path: Accounting(qos=path).definitions()),
    "associations": Reader("dump.cfg", texts(DUMP), lambda path: Accounting(path).names_of_qualities()),
    "topology.yaml": Reader("topology.yaml", texts(TOPOLOGY, *ONE_TOPOLOGY), _topology),
    "policy": Reader("policy", texts(PRIORITIES, DUMP, QOS, SHARES), lambda path: read_policy([path])),
    "matrix.csv": Reader("matrix.csv", fixtures("etc/*.csv"), _matrix),
    "matrix.txt": Reader("matrix.txt", texts(HCSP, "# m0 m1\n1 2.5\ninf 4\n"), _matrix),
    "matrix.npy": Reader("matrix.npy", ARRAYS, _matrix),
    "ready times": Reader("matrix.csv", texts("1,2\n"), lambda path: read_problem(path, path)),
    "site file": Reader("site.toml", fixtures("sites/*.toml"), read_site_file),
    "experiment": Reader("e.toml", fixtures("experiments/*.toml"), _toml(Experiment)),
    "plan": Reader("p.toml", fixtures("plans/*.toml"), _toml(Plan)),
    "trace": Reader(
        "trace.parquet",
        _of_a_replay("trace.parquet"),
        lambda path: (read_facts(path), read_resource_names(path)),
        False,
    ),
    "trace of an experiment": Reader("trace.parquet", _of_an_experiment, read_trace, False),
    "timings": Reader(
        "timings.parquet",
        _of_a_replay("timings.parquet"),
        lambda path: read_table(path, TIMINGS_SCHEMA),
        False,
    ),
    **{
        f"{name} of results": Reader("changed", _of_a_replay(name), _folder_with(name), False)
        for name in ("trace.parquet", "jobs.csv", "summary.json")
    },
    "case of a swarm": Reader("case.json", _cases, Case.read),
    "journal": Reader("journal", _journals, _journal, False),
    "entry of a journal": Reader(
        "entry.json", texts(OF_VERSION_1), lambda path: entry_of(path.read_bytes()), False
    ),
    "origin of results": Reader(
        "origin.json", texts(ORIGIN), lambda path: [*origin_terms(path.parent)], False
    ),
    "batsim reply": Reader(
        "reply.json", texts(REPLY), lambda path: read_reply(path.read_text(errors="replace"), 0.0)
    ),
    "batsim requests": Reader("requests.json", texts(REQUESTS), _serve, False),
}
