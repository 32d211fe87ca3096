"""Slurm's accounting for one controller, on its clock: associations, qualities of service, what remains."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sil.slurm.accounting import Accounting, dumped, loaded
from sil.slurm.configuration import configuration_of
from sil.slurm.controller import Controller
from sil.slurm.installation import listening
from sil.slurm.running import running
from site_db.files.input_errors import InvalidFile
from site_db.slurm.policy import read_policy
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.test_controller import processes_in

START_S = 1_600_000_000.0
FAIR_SHARE = (
    "AccountingStorageEnforce=associations,limits,qos",
    "PriorityType=priority/multifactor",
    "PriorityWeightFairshare=1000",
)
GPUS = ("GresTypes=gpu", "AccountingStorageTRES=gres/gpu")
USERS = {"alice": 70001, "bob": 70002}
QOS = (
    "Name|Priority|GraceTime|Preempt|PreemptMode|UsageFactor|GrpTRES|MaxWall|MaxJobsPU|MaxSubmitPA\n"
    "normal|0|00:00:00||cluster|1.000000||||\n"
    "high|1000|00:01:00|normal|cluster|1.000000|cpu=3,gres/gpu=2|1-00:00:00|2|7\n"
)

needs_database = pytest.mark.skipif(
    shutil.which("mariadbd", path="/usr/sbin:/usr/bin") is None
    or shutil.which("slurmdbd", path="/usr/sbin:/usr/bin") is None,
    reason="without slurmdbd and MariaDB",
)


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    qos = tmp_path_factory.mktemp("qos") / "qos.txt"
    qos.write_text(QOS)
    accounting = Accounting(accounts={"alice": ["physics"], "bob": ["chemistry"]}, qos=qos)
    fair = configuration_of(4, settings=(*GPUS, *FAIR_SHARE[::2])).with_settings(FAIR_SHARE[1])
    with running(fair, START_S, USERS, accounting) as found:
        yield found


def rows(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.splitlines()]


@needs_slurm
@needs_database
def test_users_are_in_their_accounts_with_equal_shares(controller: Controller) -> None:
    shown = controller.slurm("sacctmgr", "-nP", "show", "assoc", "format=account,user,share")
    assert {tuple(row) for row in rows(shown)} >= {
        ("physics", "", "1"), ("physics", "alice", "1"), ("chemistry", "", "1"), ("chemistry", "bob", "1"),
    }  # fmt: skip
    shares = controller.slurm(
        "sshare", "--all", "--noheader", "--parsable2", "--format=account,user,normshares"
    )
    assert ["  physics", "alice", "1.000000"] in rows(shares), "slurmctld knows them, too"


@needs_slurm
@needs_database
def test_qualities_of_service_have_their_limits(controller: Controller) -> None:
    columns = "name,priority,gracetime,preempt,grptres,maxwall,maxjobspu,maxsubmitpa"
    shown = controller.slurm("sacctmgr", "-nP", "show", "qos", f"format={columns}")
    row = ["high", "1000", "00:01:00", "normal", "cpu=3,gres/gpu=2", "1-00:00:00", "2", "7"]
    assert row in rows(shown)


@needs_slurm
@needs_database
def test_the_database_has_the_controllers_time_and_takes_none_of_it(controller: Controller) -> None:
    began_s = controller.clock.now_s
    controller.slurm("sacctmgr", "-i", "add", "account", "maths")
    assert controller.clock.now_s == began_s
    log = controller.slurm("sacctmgr", "-nP", "list", "transactions", "format=time,action")
    assert rows(log)[-1][0].startswith("2020-09-13T12:")


@needs_slurm
@needs_database
def test_hours_pass_and_usage_is_rolled_up_in_them(controller: Controller) -> None:
    for _ in range(2):
        controller.advance(controller.clock.now_s + 3600, jumps=True)
        controller.settle()
    shown = controller.slurm(
        "sreport", "-nP", "cluster", "utilization", "start=2020-09-13T13:00", "end=2020-09-13T14:00"
    )
    ((cluster, *_),) = rows(shown)
    assert cluster == "testbed"


@needs_slurm
@needs_database
def test_what_was_dumped_is_loaded(controller: Controller, tmp_path: Path) -> None:
    limits = {"cluster testbed": "GrpTRES=gres/gpu=7", "account physics": "MaxTRESPerJob=gres/gpu=1"}
    for whose, limit in limits.items():
        controller.slurm("sacctmgr", "-i", "modify", *whose.split(), "set", limit)
    dump = tmp_path / "dump.cfg"
    administrator = {"SIL_USERS": str(controller.folder / "administrators")}
    words = ("dump", "testbed", f"file={dump}")
    controller.slurm("sacctmgr", *words, variables=administrator)
    fair = configuration_of(2, settings=(*GPUS, *FAIR_SHARE[::2]))
    with running(fair, START_S, USERS, Accounting(associations=dump)) as other:
        shown = other.slurm("sacctmgr", "-nP", "show", "assoc", "format=account,user,grptres,maxtres,qos")
        assert ["root", "", "gres/gpu=7", "", "high,normal"] in rows(shown)
        assert ["physics", "alice", "", "gres/gpu=1", "high,normal"] in rows(shown)
        ports = {port for _, port in listening()}
        assert {address for address, port in listening() if port == other.port} == {"0100007F"}
        assert ports
    assert not processes_in(other.folder)
    assert not other.folder.exists()


TREE = """# A tree of accounts
Cluster - 'c':Fairshare=1:QOS='normal,high':MaxJobs=50
Parent - 'root'
Account - 'physics':Description='All: x':Organization='o':Fairshare=3:GrpTRES=cpu=9,gres/gpu=2:GrpJobs=10
Account - 'chemistry':Description='c':Organization='o':Fairshare=parent:GrpSubmitJobs=9:Priority=7:GrpWall=100
Parent - 'physics'
Account - 'theory':Description='t':Organization='o':Fairshare=2:MaxTRESPerJob=cpu=8,mem=4G:QOS='high'
User - 'Alice':DefaultAccount='theory':Fairshare=parent:MaxSubmitJobs=4
Parent - 'theory'
User - 'Alice':DefaultAccount='theory':Fairshare=5:MaxJobs=3:MaxWall=60:QOS='normal,high':DefaultQOS='high'
User - 'bob':Partition='batch':DefaultAccount='theory':Fairshare=1:MaxWall='1-12:00:00'
Parent - 'chemistry'
User - 'bob':Fairshare=4
"""


@needs_slurm
@needs_database
def test_the_policy_is_the_same_in_what_slurm_was_given_and_in_what_it_prints(tmp_path: Path) -> None:
    dump, qos, printed = tmp_path / "given.cfg", tmp_path / "given.txt", tmp_path / "printed"
    dump.write_text(TREE)
    qos.write_text(QOS)
    printed.mkdir()
    fair = configuration_of(2, settings=(*GPUS, *FAIR_SHARE[::2])).with_settings(FAIR_SHARE[1])
    with running(fair, START_S, {"Alice": 70001, "bob": 70002}, Accounting(dump, qos)) as controller:
        administrator = {"SIL_USERS": str(controller.folder / "administrators")}
        controller.slurm("sacctmgr", "dump", "testbed", f"file={printed / 'cfg'}", variables=administrator)
        for name, words in {
            "qos": ("sacctmgr", "--parsable2", "show", "qos"),
            "shares": ("sshare", "-a", "--parsable2"),
            "more_shares": ("sshare", "-a", "-l", "-m", "--parsable"),
        }.items():
            (printed / name).write_text(controller.slurm(*words))
    given = read_policy([dump, qos])
    for shares in ("shares", "more_shares"):
        found = read_policy([printed / "cfg", printed / "qos", printed / shares])
        tree = {(each.account, each.user): each for each in found.associations}
        assert tree == {(each.account, each.user): each for each in given.associations}
        assert found.qualities == given.qualities
        assert [note.rpartition("ignored: ")[2] for note in found.notes] == [
            note.rpartition("ignored: ")[2] for note in given.notes
        ]


def test_a_dump_has_each_user_below_its_accounts_of_which_the_first_is_the_default() -> None:
    assert dumped("c", {"b": ["X"], "a": ["o-x", "X", "x"]}, ["high"]).splitlines() == [
        "Cluster - 'c':Fairshare=1:QOS='high,normal'",
        "Parent - 'root'",
        "Account - 'o-x':Description='o-x':Organization='o-x':Fairshare=1",
        "Account - 'x':Description='x':Organization='x':Fairshare=1",
        "Parent - 'o-x'",
        "User - 'a':DefaultAccount='o-x':Fairshare=1",
        "Parent - 'x'",
        "User - 'a':DefaultAccount='o-x':Fairshare=1",
        "User - 'b':DefaultAccount='x':Fairshare=1",
    ]


@pytest.mark.parametrize(
    "name", ["-i", "--help", "+x", "a=b", "a,b", "o'x", 'o"x', "a b", "n[1-2]", "a:b", "a#b"]
)
def test_a_name_that_sacctmgr_takes_for_something_else_is_refused(name: str, tmp_path: Path) -> None:
    sentence = "is not a name for Slurm's database; expected letters, digits"
    with pytest.raises(InvalidFile, match=f"the log: account .* {sentence}"):
        dumped("c", {"a": [name]})
    with pytest.raises(InvalidFile, match=f"the log: QOS .* {sentence}"):
        Accounting(qualities=[name]).names_of_qualities()
    (tmp_path / "qos.txt").write_text(f"Priority|Name\n1|{name}\n")
    with pytest.raises(InvalidFile, match=f"qos.txt, line 2: QOS .* {sentence}"):
        Accounting(qos=tmp_path / "qos.txt").definitions()


def test_only_settings_that_say_something_are_set_of_a_quality_of_service(tmp_path: Path) -> None:
    (tmp_path / "qos.txt").write_text(QOS)
    assert dict(Accounting(qos=tmp_path / "qos.txt").definitions()) == {
        "normal": ["usagefactor=1.000000"],
        "high": [
            "priority=1000", "gracetime=60", "preempt=normal", "usagefactor=1.000000",
            "grptres=cpu=3,gres/gpu=2", "maxwall=1-00:00:00", "maxjobspu=2", "maxsubmitjobspa=7",
        ],
    }  # fmt: skip


def test_qualities_of_service_in_a_dump_count_unless_another_file_has_them(tmp_path: Path) -> None:
    dump, listed = tmp_path / "dump.cfg", tmp_path / "qos.txt"
    dump.write_text(
        "QOS - 'normal':Description='Normal: default'\n"
        "QOS - 'high':Description='x':Flags='DenyOnLimit':GrpTRES='cpu=3,gres/gpu=2':Priority=1000\n"
        "Cluster - 'c':Fairshare=1:QOS='high,low'\nParent - 'root'\n"
    )
    listed.write_text("Name|Priority\nlow|5\n")
    alone = Accounting(associations=dump)
    high = ["flags=DenyOnLimit", "grptres=cpu=3,gres/gpu=2", "priority=1000"]
    assert alone.definitions() == [("normal", []), ("high", high)]
    assert alone.names_of_qualities() == {"normal", "high", "low"}
    assert Accounting(associations=dump, qos=listed).definitions() == [("low", ["priority=5"])]


@needs_slurm
@needs_database
@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("Name|GrpTRES\nnormal|gres/fpga=1\n", "no TRES known by type gres/fpga"),
        ("Name|NewLimit\nnormal|7\n", "Unknown option: newlimit=7"),
    ],
)
def test_what_slurm_says_against_a_file_names_it(
    table: str, sentence: str, controller: Controller, tmp_path: Path
) -> None:
    path = tmp_path / "qos.txt"
    path.write_text(table)
    with pytest.raises(InvalidFile, match=rf"qos.txt: sacctmgr .* {sentence}"):
        loaded(controller, Accounting(qos=path), "testbed")
