"""A cluster in real time: the packaged controller, and a packaged node daemon for each node, all on this
computer and with a key of their own for munge. Nothing is preloaded."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from sil.slurm.installation import calling_user, installed, listens, reserved_port
from sil.slurm.running import munge_command

STARTS_WITHIN_S = 60.0
_STARTED = re.compile(r"^\[(\S+)\] sched.*: (?:Allocate|Started) JobId=(\d+) ", re.MULTILINE)


class RealCluster:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}

    def slurm(self, name: str, *words: str) -> str:
        """What a command of Slurm prints."""
        command = [str(installed().program(name)), *words]
        done = subprocess.run(
            command, env=self._environment, cwd=self.folder, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def started(self, *command: str | Path) -> subprocess.Popen[bytes]:
        with (self.folder / "out.txt").open("ab") as output:
            return subprocess.Popen(
                [*map(str, command)], env=self._environment, cwd=self.folder,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def starts_s(self) -> dict[int, float]:
        """When the controller started each job, by its number, in seconds since the epoch."""
        found = _STARTED.findall((self.folder / "slurmctld.log").read_text())
        return {int(job): datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp() for at, job in found}

    def n_completed(self) -> int:
        path = self.folder / "jobcomp.txt"
        return path.read_text().count(" JobState=COMPLETED ") if path.exists() else 0

    def processes(self) -> list[psutil.Process]:
        """Daemons, and the processes of jobs; all work in the cluster's directory, or in one within it. (What
        runs a job writes its title over its environment.)"""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder):
                    found.append(process)
        return found


@contextmanager
def real_cluster(scheduling: Sequence[str], nodes: Sequence[str]) -> Iterator[RealCluster]:
    """A cluster with these lines of slurm.conf, among which are those of these nodes. At the end, its
    processes are ended, and its directory is removed."""
    folder = Path(tempfile.mkdtemp(prefix="sil-real-"))
    cluster = RealCluster(folder)
    try:
        with ExitStack() as reserved:
            controller, *of_nodes = (_port(reserved) for _ in range(1 + len(nodes)))
            _configure(folder, scheduling, controller, dict(zip(nodes, of_nodes, strict=True)))
            cluster.started(*munge_command(folder, installed()))
            until("munged listens", lambda: (folder / "munge.socket").exists())
            cluster.started(installed().controller, "-D", "-c")
            until("slurmctld listens", lambda: listens(controller))
            slurmd = installed().program("slurmd")
            for name in nodes:
                cluster.started(slurmd, "-D", "-N", name)
            until(
                "the nodes are idle",
                lambda: cluster.slurm("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == str(len(nodes)),
            )
            yield cluster
    finally:
        while processes := cluster.processes():
            _end(processes)
        shutil.rmtree(folder, ignore_errors=True)


def _port(reserved: ExitStack) -> int:
    found, port = reserved_port()
    reserved.enter_context(found)
    return port


def _configure(folder: Path, scheduling: Sequence[str], port: int, port_of: dict[str, int]) -> None:
    (folder / "state").mkdir()
    user = calling_user()
    own = f"""
        SlurmctldHost=localhost(127.0.0.1)
        SlurmctldPort={port}
        CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
        AuthType=auth/munge
        AuthInfo=socket={folder}/munge.socket
        CredType=cred/munge
        SlurmUser={user}
        SlurmdUser={user}
        StateSaveLocation={folder}/state
        SlurmctldPidFile={folder}/slurmctld.pid
        SlurmctldLogFile={folder}/slurmctld.log
        SlurmdSpoolDir={folder}/spool.%n
        SlurmdPidFile={folder}/slurmd.%n.pid
        SlurmdLogFile={folder}/slurmd.%n.log
        JobCompType=jobcomp/filetxt
        JobCompLoc={folder}/jobcomp.txt
        AccountingStorageType=accounting_storage/none
        ReturnToService=2
        MailProg=/bin/true
        ProctrackType=proctrack/linuxproc
        TaskPlugin=task/none
        JobAcctGatherType=jobacct_gather/none
        SwitchType=switch/none
        MpiDefault=none
    """
    lines = [line.strip() for line in own.splitlines()]
    for line in scheduling:
        all_nodes = re.match(r"NodeName=\S+(.*)", line)
        lines += [line] if all_nodes is None else [
            f"NodeName={name}{all_nodes[1]} NodeHostName=localhost NodeAddr=127.0.0.1 Port={its_port}"
            for name, its_port in port_of.items()
        ]  # fmt: skip
    (folder / "slurm.conf").write_text("\n".join((*lines, "")))


def until(what: str, holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + STARTS_WITHIN_S
    while not holds():
        assert time.monotonic() < deadline_s, f"not within {STARTS_WITHIN_S:g} s: {what}"
        time.sleep(0.1)


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, 10)
