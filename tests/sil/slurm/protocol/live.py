"""A real controller in real time, and a thread that plays its nodes."""

from __future__ import annotations

import os
import pwd
import queue
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sil.slurm.installation import installed
from sil.slurm.protocol.authentication import Authentication
from sil.slurm.protocol.codes import JOB_ALREADY_COMPLETE, MessageType
from sil.slurm.protocol.envelope import NEVER_ANSWERED, Message, receive, reply, send, usual_answer
from sil.slurm.protocol.records import BatchJobLaunch, KillJob, ReturnCode
from sil.slurm.protocol.releases import ProtocolError
from sil.slurm.running import munge_command

CONFIGURATION = """
ClusterName=testbed
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.txt
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
TreeWidth=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmdPort={nodes}
NodeName=DEFAULT Sockets=2 CoresPerSocket=4 RealMemory=64000
{lines}
"""


class Nodes:
    """Answers the controller as if all went well, and keeps what it asked."""

    to_termination = JOB_ALREADY_COMPLETE
    """The answer if a job is to end: by default, it is gone. After SUCCESS, an epilog's end is awaited."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listening.getsockname()[1]
        self._asked: queue.Queue[Message | ProtocolError] = queue.Queue()
        self._kept: list[Message] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                with connection:
                    try:
                        request = receive(connection, self._authentication)
                        if request.type not in NEVER_ANSWERED:
                            send(connection, self._reply(request), self._authentication)
                        self._asked.put(request)
                    except ProtocolError as error:
                        self._asked.put(error)

    def _reply(self, request: Message) -> Message:
        if request.type == MessageType.REQUEST_TERMINATE_JOB:
            return reply(request, lambda node: ReturnCode(self.to_termination))
        return reply(request, usual_answer(request))

    def within(self, seconds: float, type: MessageType, job: int) -> list[Message]:
        """Such messages that have come, or come within this time. They are kept."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with suppress(queue.Empty):
                self._keep(self._asked.get(timeout=left))
        return [message for message in self._kept if message.type == type and job in jobs_of(message)]

    def next(self, type: MessageType, job: int) -> Message:
        """The next message of this type on a job or its array; others are kept. Fails after a while."""
        while True:
            for place, message in enumerate(self._kept):
                if message.type == type and job in jobs_of(message):
                    return self._kept.pop(place)
            self._keep(self._asked.get(timeout=15))

    def _keep(self, found: Message | ProtocolError) -> None:
        if isinstance(found, ProtocolError):
            raise found
        self._kept.append(found)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


def jobs_of(message: Message) -> tuple[int, ...]:
    match message.body:
        case BatchJobLaunch():
            return message.body.job, message.body.array_job
        case KillJob():
            return (message.body.id.job,)
    return ()


class Controller:
    def __init__(self, port: int, folder: Path, nodes: Nodes, authentication: Authentication) -> None:
        self.folder, self.nodes = folder, nodes
        self._address, self._authentication = ("127.0.0.1", port), authentication

    def ask(self, message: Message) -> Message:
        with socket.create_connection(self._address, 10.0) as connection:
            send(connection, message, self._authentication)
            return receive(connection, self._authentication)

    def tell(self, message: Message) -> None:
        with socket.create_connection(self._address, 10.0) as connection:
            send(connection, message, self._authentication)

    def completed(self, job: int) -> str:
        """The line of a job in jobcomp.txt. Fails after a while."""
        path = self.folder / "jobcomp.txt"
        until = time.monotonic() + 15
        while time.monotonic() < until:
            if path.exists():
                for line in path.read_text().splitlines():
                    if line.startswith(f"JobId={job} "):
                        return line
            time.sleep(0.02)
        raise AssertionError(f"job {job} is not in jobcomp.txt")


@contextmanager
def controller(folder: Path, lines: str, authentication: Authentication) -> Iterator[Controller]:
    """A controller with these lines on authentication, nodes and partitions in slurm.conf."""
    slurm = installed()
    executable = folder / "slurmctld"  # it looks at the name by which it was called
    executable.symlink_to(slurm.inside(slurm.controller))
    nodes, port = Nodes(authentication), free_port()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=socket.gethostname(),
            user=pwd.getpwuid(os.getuid()).pw_name,
            lines=lines,
            port=port,
            folder=folder,
            nodes=nodes.port,
        )
    )
    (folder / "state").mkdir()
    with open(folder / "output", "w") as output:
        command, environment = slurm.invoked([executable, "-D", "-f", configuration])
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, env=environment
        )
        try:
            wait_for(port, process, folder / "output")
            yield Controller(port, folder, nodes, authentication)
        finally:
            process.kill()
            process.wait()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)  # its helper
            nodes.close()


@contextmanager
def munge_daemon() -> Iterator[str]:
    """A daemon of munge with a key of its own; where it listens."""
    with tempfile.TemporaryDirectory(prefix="munge") as name:  # a path of moderate length, for the socket
        command, environment = installed().invoked(munge_command(Path(name), installed()))
        with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as process:
            until = time.monotonic() + 10
            while not Path(name, "munge.socket").exists() and time.monotonic() < until:
                time.sleep(0.01)
            yield f"{name}/munge.socket"
            process.terminate()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes], output: Path) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None:
            break
        time.sleep(0.02)
    raise AssertionError(f"the controller does not listen:\n{output.read_text()}")
