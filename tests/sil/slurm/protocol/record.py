"""Records messages between Slurm's own commands and daemons into `recorded/`, in a folder of their release,
for the tests of the codec.

    unshare --map-root-user --uts --mount --pid --fork --mount-proc python -m tests.sil.slurm.protocol.record

runs a controller and four node daemons on the host `testbed` with GPUs that do not exist, submits jobs, and
writes down what passes between them: each message in a file, without its length. It takes two minutes,
because the least time limit is one minute. In its name spaces, Slurm's files are where a site has them;
nothing of this computer is in the messages.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from sil.slurm.protocol.releases import BODIES, V22_05, MessageType, Release, name_of

FOLDER = Path(__file__).parent / "recorded"
NODES = ["n1", "n2", "n3", "n4"]
PORT = int(os.environ.get("PORT", "16000"))
CONTROLLER, CONTROLLER_RELAY, DAEMONS, DAEMON_RELAYS = (PORT + k for k in (817, 818, 0, 100))
"""Ports; those of nodes are counted up from there."""

CONFIGURATION = """
ClusterName=testbed
SlurmctldHost=testbed(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
SlurmctldPort={controller}
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.%n.pid
SlurmctldLogFile=/var/spool/slurmctld.log
SlurmdLogFile=/var/spool/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldParameters=enable_configless
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/basic
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
HealthCheckProgram=/bin/true
HealthCheckInterval=5
AcctGatherNodeFreq=5
Licenses=matlab:4
OverTimeLimit=0
KillWait=2
TreeWidth=2
SlurmdTimeout=30
GresTypes=gpu
DebugFlags=NO_CONF_HASH
{nodes}
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=9
"""
NODE = (
    "NodeName={name} NodeHostName=testbed NodeAddr=127.0.0.1 Port={port} Sockets=2 CoresPerSocket=4 "
    "ThreadsPerCore=2 RealMemory=64000 TmpDisk=9000 Gres=gpu:a100:4 Feature=fast State=UNKNOWN"
)

SUBMISSIONS = {
    "plain": "--uid=1 --gid=2",
    "nodes-and-tasks": "-J weather -p batch -N 2-3 -n 8 -c 2 --ntasks-per-node=4 --mem=2000 -t 90",
    "tasks-per-node": "-N 2 --ntasks-per-node=3 -c 2 -t 10 --comment=daily",
    "memory-per-cpu": "-n 3 --mem-per-cpu=500 -t 90 --nice=50 --no-requeue --contiguous -C fast --tmp=100",
    "gpus-per-node": "-N 2 --gres=gpu:a100:2 -t 10 --exclusive -L matlab:2",
    "gpus-of-the-job": "--gpus=a100:3 --cpus-per-gpu=2 --mem-per-gpu=100 -t 10 --requeue",
    "gpus-per-task": "-n 2 --gpus-per-task=1 -t 10 --oversubscribe --kill-on-invalid-dep=yes",
    "array": "--array=1-5%2 -t 10 -H",
    "array-that-runs": "--array=3-5%1 -t 10",
    "dependency": "-d afterany:1 -t 10 -A physics -q normal",
    "times": "--begin=2031-01-01T00:00:00 --deadline=2032-01-01T00:00:00 -t 10 --time-min=5 --no-kill",
    "names-of-nodes": "-w n[2-3] -x n4 -N 2 -t 10",
    "components": "-n 2 -t 10 : -n 4 --gpus-per-node=a100:1 -t 20",
}
"""Options of sbatch."""
REFUSED = "-p nowhere --reservation=maintenance --priority=77 --wckey=spring --gpus-per-node=a100:1,v100:2"
OF_A_JOB = (MessageType.REQUEST_SUBMIT_BATCH_JOB, MessageType.REQUEST_BATCH_JOB_LAUNCH)
WAIT = ("array", "times", "high")
"""Jobs that do not start, or not at once."""
ANSWERED = ("plain", "refused")
"""The jobs of which the answers are kept, too."""
UNKNOWN = (2009,)
"""Messages of which one is kept, although the codec does not know them."""


def slurm_conf(controller: int, nodes: int) -> str:
    lines = [NODE.format(name=name, port=nodes + place) for place, name in enumerate(NODES, 1)]
    return CONFIGURATION.format(controller=controller, nodes="\n".join(lines))


class Relays:
    """Pass messages on, and keep those of which there is none with the same label yet."""

    def __init__(self) -> None:
        self.label = ""
        self._lock = threading.Lock()
        self.seen: dict[str, bytes] = {}

    def between(self, port: int, target: int) -> None:
        """Connections to `port` go to `target`."""
        listening = socket.create_server(("127.0.0.1", port), backlog=128)
        threading.Thread(target=self._accept, args=(listening, target), daemon=True).start()

    def _accept(self, listening: socket.socket, target: int) -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=self._pass_on, args=(connection, target), daemon=True).start()

    def _pass_on(self, connection: socket.socket, target: int) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            request = framed(connection)
            with socket.create_connection(("127.0.0.1", target)) as further:
                name = self._note(request)
                further.sendall(request)
                answer = framed(further)
                connection.sendall(answer)
                if name and not (kind(request) in OF_A_JOB and self.label not in ANSWERED):
                    self.seen[f"{name}-answer"] = neutral(answer)

    def _note(self, frame: bytes) -> str:
        """The name of a message that is kept; none if it is not."""
        if kind(frame) not in BODIES and kind(frame) not in UNKNOWN:
            return ""
        name = "unknown" if kind(frame) in UNKNOWN else name_of(kind(frame))
        if kind(frame) in OF_A_JOB:
            name += f"-{self.label}"
        if many(frame):
            name += "-many"
        with self._lock:
            if name in self.seen:
                return ""
            self.seen[name] = neutral(frame)
        return name


def neutral(frame: bytes) -> bytes:
    """The message without its length, and without the release of this computer's kernel."""
    release = os.uname().release.encode()
    return frame[4:].replace(release, b"6.1.0".ljust(len(release), b"0"))


def framed(connection: socket.socket) -> bytes:
    """The next message, with its length."""
    found = b""
    length = 4
    while len(found) < length:
        part = connection.recv(length - len(found))
        if not part:
            raise ValueError("the connection has ended")
        found += part
        if len(found) == 4:
            length = 4 + struct.unpack(">I", found)[0]
    return found


def kind(frame: bytes) -> int:
    return int(struct.unpack_from(">H", frame, _after_flags(frame))[0])


def many(frame: bytes) -> bool:
    """Whether the message is forwarded to further nodes."""
    (further,) = struct.unpack_from(">H", frame, _after_flags(frame) + 6)
    return bool(further)


def _after_flags(frame: bytes) -> int:
    (version,) = struct.unpack_from(">H", frame, 4)
    return 8 if version >= V22_05 else 10


@contextlib.contextmanager
def daemon(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env=ENVIRONMENT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "USER": "root", "LOGNAME": "root"}


def run(*command: str) -> str:
    return subprocess.run(command, env=ENVIRONMENT, cwd="/", capture_output=True, text=True).stdout


def submit(relays: Relays, label: str, options: str, script: str = "sleep 600") -> str:
    relays.label = label
    done = subprocess.run(
        ["sbatch", "--parsable", "-o", "/dev/null", "--export=NONE", f"--wrap={script}", *options.split()],
        env=ENVIRONMENT,
        cwd="/",
        capture_output=True,
        text=True,
    )
    job = done.stdout.strip()
    print(label, job, done.stderr.strip(), flush=True)
    if job and label not in WAIT:
        wait_until(job, "RUNNING" if "sleep" in script else "")
    time.sleep(1)
    return job


def wait_until(job: str, state: str) -> None:
    """Until it has this state, or with none until it is over; not for ever."""
    for _ in range(100):
        if run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").split()[:1] == [state or "FAILED"]:
            return
        time.sleep(0.2)


def scenario(relays: Relays) -> None:
    for label, options in SUBMISSIONS.items():
        job = submit(relays, label, options, "exit 3" if label == "plain" else "sleep 600")
        if label == "gpus-per-node":
            run("scontrol", "suspend", job)
            wait_until(job, "SUSPENDED")
            run("scontrol", "resume", job)
            wait_until(job, "RUNNING")
            run("scancel", "-b", "-s", "USR1", job)
            time.sleep(1)
        run("scancel", job)
        time.sleep(3)
    submit(relays, "refused", REFUSED)
    submit(relays, "low", "-N 4 --exclusive -t 10")
    job = submit(relays, "high", "-N 4 --exclusive -p urgent -t 10")
    time.sleep(15)
    run("scancel", job)
    time.sleep(3)
    submit(relays, "beyond-the-limit", "-N 1 -t 1")
    time.sleep(100)
    run("scontrol", "reconfigure")
    time.sleep(5)
    submit(relays, "unknown-later", "-N 1 -t 10")


def main() -> None:
    socket.sethostname("testbed")
    for place in ("/etc/slurm", "/var/spool", "/run"):
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    Path("/run/hosts").write_text("127.0.0.1 localhost testbed\n")
    subprocess.run(["mount", "--bind", "/run/hosts", "/etc/hosts"], check=True)
    Path("/etc/slurm/gres.conf").write_text("Name=gpu Type=a100 File=/dev/tty[0-3]\n")
    Path("/etc/slurm/slurm.conf").write_text(slurm_conf(CONTROLLER_RELAY, DAEMONS))
    release = Release.of(run("slurmctld", "-V"))
    assert release is not None
    if release >= (23, 2):
        Path("/etc/slurm/cgroup.conf").write_text("CgroupPlugin=disabled\n")
    for name in NODES:
        Path(f"/var/spool/slurmd.{name}").mkdir()
    Path("/var/spool/controller").mkdir()
    Path("/var/spool/controller/slurm.conf").write_text(slurm_conf(CONTROLLER, DAEMON_RELAYS))
    relays = Relays()
    relays.between(CONTROLLER_RELAY, CONTROLLER)
    with contextlib.ExitStack() as running:
        for number, name in enumerate(NODES, 1):
            relays.between(DAEMON_RELAYS + number, DAEMONS + number)
            running.enter_context(daemon("slurmd", "-D", "-N", name))
        controller = ("slurmctld", "-D", "-f", "/var/spool/controller/slurm.conf")
        with daemon(*controller, "-c"):
            time.sleep(8)
            print(run("sinfo"), flush=True)
            scenario(relays)
        with daemon(*controller, "-c"):  # has forgotten the job that runs
            time.sleep(30)
            run("scontrol", "shutdown")
            time.sleep(5)
    if "-v" in sys.argv:
        os.system("cat /var/spool/*.log")
    folder = FOLDER / release.name
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.bin"):
        old.unlink()
    for name, message in relays.seen.items():
        (folder / f"{name}.bin").write_bytes(message)


if __name__ == "__main__":
    main()
