"""Nothing of the operator's is touched: no path, program or host of a slurm.conf reaches a controller,
however it is written, and a controller that sees one nevertheless is not used."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler import UserError
from sil.runs.on_log import Replay
from sil.settings.replays import Engine
from sil.slurm.configuration import Configuration, configuration_of, read_configuration
from sil.slurm.protocol.releases import Release
from sil.slurm.running import running
from sil.slurm.settings.selection import Surroundings, check_addresses, check_view, own_settings
from site_db.files.input_errors import InvalidFile
from tests.sil.experiment.test_replay import log_of
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.test_accounting import needs_database
from tests.sil.slurm.test_replays import rows, starts_under

HERE = Surroundings("/run/of/it", "me", 1001, 1002, 1003, Path("/run/of/it/munge.socket"))
HOST = "head.example"
PATHS = """StateSaveLocation SlurmdSpoolDir SlurmctldPidFile SlurmdPidFile SlurmctldLogFile SlurmdLogFile
    SlurmSchedLogFile JobCompLoc PluginDir PlugStackConfig TmpFS JobCredentialPrivateKey
    JobCredentialPublicCertificate AccountingStorageLoc AccountingStoragePass JobCompPass ChosLoc
    SlurmctldPlugstack BurstBufferParameters"""
PROGRAMS = """Prolog Epilog PrologSlurmctld EpilogSlurmctld SrunProlog SrunEpilog TaskProlog TaskEpilog
    ResvProlog ResvEpilog MailProg RebootProgram ResumeProgram ResumeFailProgram SuspendProgram
    HealthCheckProgram UnkillableStepProgram SlurmctldPrimaryOnProg SlurmctldPrimaryOffProg
    JobCompPassScript CertmgrParameters CertgenParameters SallocDefaultCommand InteractiveStepOptions
    SiteFactorParameters PrioritySiteFactorParameters PrEpParameters AuthInfo AuthAltParameters
    TLSParameters SlurmctldParameters LaunchParameters NamespaceType AKeyOfTheYear2050"""
HOSTS = """SlurmctldHost SlurmctldAddr ControlMachine ControlAddr BackupController BackupAddr
    AccountingStorageHost AccountingStorageBackupHost AccountingStorageExternalHost JobCompHost
    CommunicationParameters FederationParameters"""
PLUGINS = {
    "JobCompType": "jobcomp/script", "JobSubmitPlugins": "lua", "CliFilterPlugins": "lua",
    "BurstBufferType": "burst_buffer/lua", "PrEpPlugins": "prep/script", "SlurmctldPlugstack": "nonstop",
    "AuthAltTypes": "auth/jwt", "AccountingStorageType": "accounting_storage/mysql",
    "NodeFeaturesPlugins": "node_features/helpers", "CertmgrType": "certmgr/script",
    "TaskPlugin": "task/cgroup",
}  # fmt: skip
NODES = "SchedulerType=sched/backfill\nNodeName=n[1-4] CPUs=1\nPartitionName=p Nodes=ALL Default=YES\n"
SPELLINGS: dict[str, Callable[[str, str], str]] = {
    "plain": lambda key, value: f"{key}={value}\n",
    "blanks": lambda key, value: f"{key} = {value}\n",
    "tabs": lambda key, value: f"\t{key}\t=\t{value}\n",
    "blank after": lambda key, value: f"{key}=   {value}   # see the manual\n",
    "small letters": lambda key, value: f"{key.lower()}= {value}\n",
    "capitals": lambda key, value: f"{key.upper()} ={value}\n",
    "quotes": lambda key, value: f'{key} = "{value}"\n',
    "operator": lambda key, value: f"{key} += {value}\n",
    "several": lambda key, value: f"JobRequeue=1 {key} = {value} KillWait=30\n",
    "continued": lambda key, value: f"{key} \\\n= \\\n{value}\n",
    "continued key": lambda key, value: f"{key[:3]}\\\n{key[3:]}={value}\n",
    "after a comment": lambda key, value: f"KillWait=30 # \\\n{key} = {value}\n",
    "escaped": lambda key, value: f"\\{key}={value}\n",
    "twice": lambda key, value: f"{key}=/dev/null\n{key} = {value}\n",
    "line end": lambda key, value: f"{key} = {value}\r\n",
    "value of another": lambda key, value: f"PriorityFlags=x\\\\ {key}={value}\n",
    "before nodes": lambda key, value: f"{key} = {value} NodeName=m CPUs=1\n",
}


def values(folder: Path) -> dict[str, str]:
    program = str(folder / "program")
    return {
        **PLUGINS,
        **{key: str(folder / key) for key in PATHS.split()},
        **dict.fromkeys(PROGRAMS.split(), program),
        **dict.fromkeys(HOSTS.split(), HOST),
    }


def written(folder: Path, text: str) -> Configuration:
    (folder / "slurm.conf").write_bytes(text.encode())
    return read_configuration(folder / "slurm.conf")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_path_program_or_host_is_passed_on_however_it_is_spelled(spelling: str, tmp_path: Path) -> None:
    for key, value in values(Path("/srv/operator")).items():
        found = written(tmp_path, SPELLINGS[spelling](key, value) + NODES)
        text = found.text(HERE)
        assert value not in text, (key, text)
        assert "SchedulerType=sched/backfill" in text.splitlines(), key
        assert any(item.old.lower() == f"{key}={value}".lower() for item in found.replaced), key
        assert any(key.lower() in sentence.lower() for sentence in found.summary), key


@pytest.mark.parametrize(
    "text",
    [
        "NodeName=n1 CPUs=1 NodeAddr = {} NodeHostname = {} BcastAddr={} Port = 6818",
        "NodeName = DEFAULT NodeAddr={}\nNodeName = n1 CPUs = 1",
        "NodeName=n1 CPUs=1\nPartitionName = p Nodes=n1 AllocNodes = {} Prolog={}",
        "NodeName=n1 CPUs=1 StateSaveLocation = {}",
        "NodeName=n1 CPUs=1\nFrontendName = f FrontendAddr = {}",
        "NodeName=n1 CPUs=1\nDownNodes = n1 State=DOWN Reason=x Prolog = {}",
    ],
)
def test_keys_of_nodes_and_partitions_are_selected_too(text: str, tmp_path: Path) -> None:
    text = written(tmp_path, text.replace("{}", HOST)).text(HERE)
    assert HOST not in text
    assert " NodeAddr=127.0.0.1\n" in text


def test_what_is_included_is_selected_too(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("StateSaveLocation = /srv/operator\n")
    text = written(tmp_path, f"include more.conf\n{NODES}").text(HERE)
    assert "/srv/operator" not in text


def test_a_topology_file_has_only_what_it_may_have(tmp_path: Path) -> None:
    (tmp_path / "topology.conf").write_text(
        "SwitchName = s Nodes = n[1-4] Prolog = /srv/x # y\nStateSaveLocation = /srv/x\n"
    )
    found = written(tmp_path, f"TopologyPlugin=topology/tree\n{NODES}")
    assert found.files["topology.conf"] == "SwitchName=s Nodes=n[1-4]\n"
    assert {item.old for item in found.replaced} == {"Prolog=/srv/x", "StateSaveLocation=/srv/x"}


def test_files_beside_it_that_have_no_effect_are_named(tmp_path: Path) -> None:
    (tmp_path / "job_submit.lua").touch()
    (tmp_path / "cgroup.conf").touch()
    (note,) = written(tmp_path, NODES).notes
    assert note.endswith("slurm.conf that have no effect: cgroup.conf, job_submit.lua")


def test_a_value_cannot_hide_what_follows_it(tmp_path: Path) -> None:
    text = (
        written(tmp_path, f"PriorityFlags=a\\\\ SchedulerParameters=b\\#c\n{NODES}").text(HERE).splitlines()
    )
    assert "PriorityFlags=a\\\\" in text, "a single backslash at the end would join the next line"
    assert "SchedulerParameters=b\\#c" in text
    with pytest.raises(InvalidFile, match="line 1: NodeName has a control character; remove it"):
        written(tmp_path, f"NodeName=x\0 CPUs=1\n{NODES}")


def test_a_cluster_has_a_plain_name(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^ClusterName is 'a`;drop'; expected letters, digits and _ \. - only$"
    ):
        written(tmp_path, f"ClusterName = a`;drop\n{NODES}").text(HERE)


@pytest.mark.parametrize(("key", "release"), [("PreemptParameters", "23.02"), ("LicenseParameters", "26.05")])
def test_a_key_of_a_later_release_is_left_out_before_it(key: str, release: str, tmp_path: Path) -> None:
    (item,) = written(tmp_path, f"{key}=1\n{NODES}").replaced
    assert str(item).endswith(f"{key}=1 was left out: Slurm 22.05.8 does not know it")
    known = Release.of(f"{release}.3")
    assert known is not None
    assert f"{key}=1" in read_configuration(tmp_path / "slurm.conf", known).lines


SHOWN = "Configuration data as of now\nStateSaveLocation       = /run/x/state\n"


@pytest.mark.parametrize(
    "line",
    [
        "StateSaveLocation = /var/spool/slurm",
        "SlurmctldLogFile = /run/x/../y",
        "SlurmctldLogFile = /run/xy/log",
        "AuthInfo = socket=/run/munge/munge.socket.2",
        "PrologSlurmctld = prolog.sh",
        "Epilog[0] = cleanup",
        "MailProg = /usr/bin/mail",
        "ResumeProgram = resume",
        "SlurmctldPlugstack = nonstop",
        "SlurmctldHost[1] = backup(10.0.0.2)",
        "SlurmctldHost[0] = head",
        "AccountingStorageBackupHost = db.example",
        "BurstBufferParameters = dir:/scratch",
    ],
)
def test_a_daemon_that_sees_what_is_not_of_the_run_is_not_used(line: str) -> None:
    shown = f"{SHOWN}MailProg                = /bin/true\n"
    check_view("slurmctld", shown, "/run/x", own_settings(HERE))
    with pytest.raises(UserError, match="which does not belong to the run, so nothing was run"):
        check_view("slurmctld", f"{shown}{line}\n", "/run/x", own_settings(HERE))


def test_a_daemon_that_shows_nothing_is_not_used() -> None:
    with pytest.raises(UserError, match="does not show its configuration"):
        check_view("slurmctld", "Slurmctld(primary) at head is UP\n", "/run/x", [])
    with pytest.raises(UserError, match=r"a node at 10\.0\.0\.7, which is not this computer"):
        check_addresses("127.0.0.1\n10.0.0.7\n")


@needs_slurm
def test_a_controller_is_asked_what_it_sees_before_time_passes(tmp_path: Path) -> None:
    (tmp_path / "x").touch(0o755)  # since 24.05, slurmctld does not start if a program is missing
    setting = f"SlurmctldPrimaryOffProg={tmp_path / 'x'}"
    configuration = configuration_of(2, settings=(setting,))
    with pytest.raises(UserError, match=f"slurmctld has {setting}, which"):
        running(configuration, 1.6e9).__enter__()


@needs_slurm
@pytest.mark.parametrize(
    "more", ["", pytest.param("AccountingStorageEnforce=limits\n", marks=needs_database)]
)
def test_a_controller_touches_nothing_of_the_operator(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = tmp_path / "operator"
    operator.mkdir()
    (operator / "program").write_text(f"#!/bin/sh\necho $0 $* >>{operator}/ran\n")
    (operator / "program").chmod(0o755)
    (operator / "StateSaveLocation").mkdir()
    before = sorted(operator.rglob("*"))
    spellings = [*SPELLINGS.values()][:-2]
    lines = [spellings[k % len(spellings)](*pair) for k, pair in enumerate(values(operator).items())]
    path = tmp_path / "slurm.conf"
    path.write_text("".join(lines) + more + NODES)
    (tmp_path / "slurmdbd.conf").write_text(f"StorageHost={HOST}\nLogFile={operator}/log\n")
    (tmp_path / "plugstack.conf").write_text(f"required {operator}/program\n")
    (tmp_path / "job_submit.lua").write_text(f"os.execute('{operator}/program')\n")
    for name in ("SLURM_CLUSTERS", "SLURM_CONF", "SLURM_CONF_SERVER"):
        monkeypatch.setenv(name, HOST)
    replay = Replay(log_of(rows((0, 10, 4, 60), (1, 10, 2, 60), (2, 10, 2, 60)), 4), engine=Engine.HARNESS)
    assert len(starts_under(f"slurm: {path}", replay, tmp_path)) == 3
    assert sorted(operator.rglob("*")) == before


@needs_slurm
def test_a_daemon_reaches_no_other_computer() -> None:
    connects = "import socket, sys; sys.exit(socket.socket().connect_ex((sys.argv[1], int(sys.argv[2]))))"
    with running(configuration_of(1), 1.6e9) as controller, socket.create_server(("127.0.0.1", 0)) as server:
        for address, reached in (("192.0.2.1", False), ("127.0.0.1", True)):
            command = [sys.executable, "-c", connects, address, str(server.getsockname()[1])]
            done = subprocess.run(command, env=controller.environment(), check=False, timeout=60)
            assert (done.returncode == 0) is reached, address
