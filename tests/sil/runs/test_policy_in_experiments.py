"""Experiments under the policy and the events of files: as in replays, and part of what they are."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sil as api
from sil.experiment.databases import Identity
from sil.runs.scenario import scenario_of
from sil.settings.experiment_file import read_experiment
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, Fact
from sil.trace.reading import read_facts
from tests.commands import sil, succeeded, the_sentence
from tests.sil.slurm.installed import needs_slurm

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports", "here")

SITE = """
name = "lab"
machine_classes = [{ name = "node" }]
machines = [{ names = ["n[1-2]"], machine_class = "node", processors = 4 }]
partitions = [{ name = "p", nodes = ["n[1-2]"] }]
job_classes = [{ name = "work", sequential_s = { node = 100 }, request = { cores = 1, partitions = ["p"] } }]
"""
CONF = (
    "PriorityType=priority/multifactor\nPriorityWeightQOS={}\nPriorityWeightFairshare={}\n"
    "PriorityWeightAge=1\nAccountingStorageEnforce=associations,limits,qos\n"
)
DUMP = (
    "Cluster - 'c':QOS='normal,urgent'\nAccount - 'a':Fairshare=3\nAccount - 'b':Fairshare=1\n"
    "Parent - 'a'\nUser - 'ann':DefaultAccount='a':MaxJobs=2\nParent - 'b'\nUser - 'bob':DefaultAccount='b'\n"
)
QOS = "Name|Priority|MaxWall\nnormal|0|02:00:00\nurgent|10|\n"
EVENTS = """
[[drain]]
at = 60
until = 4000
nodes = "n2"
[[reservation]]
start = 9000
end = 12000
nodes = "ALL"
"""
OF_JOBS = '[[submission]]\njobs = 3\ndependency = "afterok:2"\n[[hold]]\nat = 2000\njobs = 5\n'
OF_JOBS += "[[release]]\nat = 6000\njobs = 5\n"
POLICY = ["slurm.conf", "sacctmgr.cfg", "qos.txt"]
LOG = '[log]\nfile = "sacct.txt"\n'


@pytest.fixture
def here(here: Path) -> Path:
    rows = ["JobID|User|Account|QOS|Partition|Submit|Start|End|State|TimelimitRaw|ReqTRES"]
    for k in range(1, 31):
        user, account = ("bob", "b") if k % 3 else ("ann", "a")
        quality = "urgent" if k % 5 == 0 else "normal"
        limit = "Partition_Limit" if k % 7 == 0 else 30 + k
        day = f"2026-01-05T{{:02}}:{10 + k % 40}:00".format
        times = f"{day(k // 6)}|{day(k // 6)}|{day(k // 6 + 1)}"
        rows.append(f"{k}|{user}|{account}|{quality}|p|{times}|COMPLETED|{limit}|cpu={1 + k % 4},node=1")
    files = {"lab.toml": SITE, "slurm.conf": CONF.format(1000, 10), "fair.conf": CONF.format(0, 1000)}
    files |= {"sacctmgr.cfg": DUMP, "qos.txt": QOS, "events.toml": EVENTS + OF_JOBS, "nodes.toml": EVENTS}
    files["hold.toml"] = "[[hold]]\nat = 2000\njobs = 5\n"
    for name, text in (files | {"sacct.txt": "\n".join(rows) + "\n"}).items():
        (here / name).write_text(text)
    return here


def written(text: str, **settings: object) -> Path:
    """An experiment file with these settings before a text."""
    given = {"name": "x", "site": "lab.toml", "schedulers": ["easy"]} | settings
    Path("x.toml").write_text("".join(f"{key} = {value!r}\n" for key, value in given.items()) + text)
    return Path("x.toml")


def facts(text: str, **settings: object) -> pl.DataFrame:
    succeeded("run", written(text, **settings), "--out", "out")
    return read_facts(Path("out") / TRACE)


def refused(text: str, **settings: object) -> str:
    return " ".join(the_sentence(sil("run", written(text, **settings), "--out", "out")).split())


def identity(source: Path) -> Identity:
    experiment = read_experiment(source)
    in_use = SiteSource(experiment, source.parent, None).snapshot(Path("site.db"))
    return Identity.of(scenario_of(experiment, in_use))


@pytest.mark.parametrize("scheduler", ["easy", "slurm_backfill"])
def test_a_replay_an_experiment_and_python_write_the_same_trace(scheduler: str) -> None:
    found = facts(LOG, policy=POLICY, events="events.toml", schedulers=[scheduler])
    options = [option for name in POLICY for option in ("--policy", name)]
    how = ("--scheduler", scheduler, "--events", "events.toml", "--out", "replayed")
    succeeded("replay", "sacct.txt", "--nodes", "lab.toml", *options, *how)
    log = api.read_log("sacct.txt", nodes="lab.toml", policy=POLICY)
    assert found.equals(read_facts(Path("replayed") / scheduler / TRACE))
    assert found.equals(api.replay(log, scheduler, events="events.toml").trace(scheduler))
    simulation = api.Simulation(log, scheduler, events=["events.toml"], reasons=False)
    simulation.run()
    assert found.select(simulation.facts.columns).equals(simulation.facts)
    events = set(found["event"])
    assert events >= {Fact.NODES_DRAINED, Fact.NODES_RESERVED, Fact.JOB_INELIGIBLE, Fact.JOB_ELIGIBLE}
    without = facts(LOG, schedulers=[scheduler])
    assert not without.filter(event=Fact.RUN_STARTED).equals(found.filter(event=Fact.RUN_STARTED))


@needs_slurm
@pytest.mark.long
def test_slurms_controller_gets_the_same_commands_accounts_and_qualities_as_in_a_replay() -> None:
    outage = EVENTS.replace("[[drain]]", "[[outage]]")
    Path("outage.toml").write_text(outage + OF_JOBS)
    found = facts(LOG, events="outage.toml", schedulers=["slurm"])
    log = api.read_log("sacct.txt", nodes="lab.toml")
    assert found.equals(api.replay(log, "slurm", events="outage.toml").trace("slurm"))
    assert found.filter(event=Fact.MACHINE_DOWN).height == 1


def test_the_past_of_a_site_in_a_database_has_its_accounts_qualities_and_longest_times() -> None:
    succeeded("db", "init", "--db", "lab.db")
    succeeded("db", "import", "lab.toml", "--db", "lab.db")
    succeeded("db", "import-sacct", "sacct.txt", "--db", "lab.db")
    succeeded("run", written("[history]\n", policy=POLICY), "--site", "lab.db", "--out", "past")
    started = [
        found.filter(event=Fact.RUN_STARTED).select("job", "time_s", "expected_s", "machines")
        for found in (read_facts(Path("past") / TRACE), facts(LOG, policy=POLICY))
    ]
    assert started[0].equals(started[1])


def test_a_changed_policy_or_events_file_is_another_experiment_and_a_moved_folder_is_the_same(
    here: Path,
) -> None:
    source = written(LOG, policy=POLICY, events="events.toml")
    first = identity(source)
    assert identity(here / source) == first
    for name, before, after in (
        ("sacctmgr.cfg", "MaxJobs=2", "MaxJobs=1"),
        ("slurm.conf", "1000", "900"),
        ("events.toml", "4000", "4001"),
    ):
        text = Path(name).read_text()
        Path(name).write_text(text.replace(before, after))
        changed = identity(source)
        assert changed.runs != first.runs, name
        assert changed.whole != first.whole, name
        Path(name).write_text(text)
    succeeded("run", source, "--out", "out")
    inputs = Path("out/origin.json").read_text()
    assert all(f'"{name}"' in inputs for name in (*POLICY, "events.toml", "x.toml"))


@pytest.mark.parametrize(
    ("key", "of_points"),
    [
        ("policy", [["fair.conf", "sacctmgr.cfg", "qos.txt"], POLICY]),
        (
            "policy_settings",
            [["PriorityWeightQOS=0", "PriorityWeightFairshare=1000"], ["PriorityWeightAge=1"]],
        ),
    ],
)
def test_a_policy_and_its_settings_vary_over_a_grid(key: str, of_points: list[list[str]]) -> None:
    found = facts(f"{LOG}[grid]\n{key} = {of_points}\n", policy=POLICY)
    for point, value in enumerate(of_points):
        at_point = found.filter(point=point).with_columns(point=pl.lit(0, found.schema["point"]))
        assert at_point.equals(facts(LOG, **{"policy": POLICY, key: value}))
    assert not found.filter(point=0)["time_s"].equals(found.filter(point=1)["time_s"])


def test_loads_vary_over_a_grid_and_the_site_does_not() -> None:
    loads = facts(f'{LOG}[grid]\n"log.load" = [1.0, 2.0]\n').filter(event=Fact.JOB_ARRIVED)
    last_s = [loads.filter(point=point)["time_s"].max() for point in (0, 1)]
    assert last_s[0] == 2 * last_s[1]  # type: ignore[operator]
    assert "'site' cannot vary" in refused(f'{LOG}[grid]\nsite = ["a", "b"]\n')


DRAWN = "[workload]\njobs = 40\nusers = { ann = 1, bob = 2 }\n"


def test_drawn_jobs_have_the_limits_of_their_users_and_meet_events_on_nodes() -> None:
    found = facts(DRAWN, policy=POLICY, events="nodes.toml")
    users = dict(found.filter(event=Fact.JOB_ARRIVED).select("job", "user").iter_rows())
    running, most = set[int](), 0
    for event, job in found.select("event", "job").iter_rows():
        if event == Fact.RUN_STARTED and users[job] == "ann":
            running.add(job)
        elif event == Fact.RUN_ENDED:
            running.discard(job)
        most = max(most, len(running))
    assert most == 2
    while_drained = pl.col("time_s").is_between(60, 4000, closed="none")
    drained = found.filter(while_drained, event=Fact.RUN_STARTED)["machines"].explode().struct.field("first")
    assert set(drained) == {0}


def test_drawn_users_that_the_policy_does_not_have_are_named() -> None:
    source = written(DRAWN.replace("bob", "eve"), policy=POLICY)
    printed = " ".join(succeeded("run", source, "--out", "out").stderr.split())
    assert "Note: the policy has no association of the users eve, who are drawn" in printed
    assert "InvalidAccount" in " ".join(read_facts(Path("out") / TRACE)["detail"].drop_nulls())


def test_a_closed_loop_is_that_of_a_replay() -> None:
    rows = (
        f"{k} {k} 5 100 4 -1 -1 4 200 -1 1 1 1 7 1 1 {k - 1 if k % 2 == 0 else -1} 7" for k in range(1, 9)
    )
    Path("log.swf").write_text("; MaxProcs: 8\n" + "\n".join(rows) + "\n")
    found = facts('[log]\nfile = "log.swf"\nclosed_loop = true\n')
    log = api.read_log("log.swf", nodes="lab.toml", closed_loop=True)
    assert found.equals(api.replay(log, "easy").trace("easy"))
    assert found.filter(event=Fact.JOB_INELIGIBLE).height == 4


@pytest.mark.parametrize(
    ("text", "settings", "sentence"),
    [
        (DRAWN, {"events": "hold.toml"}, "there is no job 5 in the drawn jobs"),
        (LOG + "load = 2.0\n", {"events": "nodes.toml"}, "moves the submissions of jobs, and not the times"),
        (
            LOG,
            {"policy": "slurm.conf", "queues": [{"name": "p"}]},
            "policy and queues both say who is served",
        ),
        (LOG, {"policy": "missing.conf"}, "missing.conf"),
        (LOG, {"events": "nodes.toml", "messages": {}}, "events is not for a manager that the tables"),
        (
            LOG + "[[outages]]\nmachine = 'n1'\nfrom_s = 1\nto_s = 2\n",
            {"events": "nodes.toml", "schedulers": ["slurm"]},
            "Slurm's controller hears of nodes from operators (events), or of outages",
        ),
        (LOG + "closed_loop = true\nweeks = 1\n", {}, "a closed loop connects jobs beyond the weeks"),
        (DRAWN, {"policy": POLICY, "schedulers": ["mct"], "site": "ten.toml"}, "policy has no effect on"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    text: str, settings: dict[str, object], sentence: str
) -> None:
    slots = SITE.replace("processors = 4", "slots = 2").replace(
        'partitions = [{ name = "p", nodes = ["n[1-2]"] }]', ""
    )
    Path("ten.toml").write_text(slots.replace(', request = { cores = 1, partitions = ["p"] }', ""))
    listed = {key: value for key, value in settings.items() if not isinstance(value, dict)}
    tables = "".join(f"[{key}]\n" for key, value in settings.items() if isinstance(value, dict))
    queues = "[[queues]]\nname = 'p'\n" if listed.pop("queues", None) else ""
    assert sentence in refused(text + tables + queues, **listed)


def test_events_on_nodes_that_the_site_does_not_have_are_refused_with_the_line() -> None:
    Path("nodes.toml").write_text(EVENTS.replace('"n2"', '"n9"'))
    assert refused(LOG, events="nodes.toml").endswith(
        "State=DRAIN: there is no node 'n9'; expected names of the log's nodes"
    )


def test_files_start_at_the_folder_of_the_experiment(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    source = written(LOG, policy=POLICY, events="events.toml").resolve()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    succeeded("run", source, "--out", "out")
