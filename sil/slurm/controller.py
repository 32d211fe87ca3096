"""A controller and all its nodes, which are in this process: they register, and answer what it asks."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from scheduler.node_request import UNTYPED, Node
from sil.slurm.daemons import CommandFailed, Daemons
from sil.slurm.installation import Installation
from sil.slurm.protocol.authentication import Authentication, Munge, Stated
from sil.slurm.protocol.envelope import NEVER_ANSWERED, message, receive, reply, send
from sil.slurm.protocol.records import (
    BATCH_STEP,
    BatchJobLaunch,
    HeterogeneousJob,
    KillJob,
    NodeRegistration,
    ReturnCode,
    ReturnCodeWithText,
    Submitted,
    SuspendJob,
    node_gres,
    of_job,
)
from sil.slurm.protocol.releases import (
    INVALID_ARGUMENT,
    JOB_ALREADY_COMPLETE,
    SUCCESS,
    MessageType,
    ProtocolError,
    reason,
)
from sil.slurm.protocol.submission import described, node_names
from sil.slurm.protocol.submission import words as words_of

LIMIT_S = 10.0
"""The real time, in seconds, for a message to arrive as a whole."""


_OF_A_PROCESS = 2
"""Linux's clock of the CPU time of a process has its number and this."""


class Controller(Daemons):
    """A running slurmctld, and slurmdbd with its database if the configuration needs them (see
    `sil.slurm.running`), with all its nodes, which answer what it asks.

    What it orders them is added to `orders`, once it has its answer.
    """

    def __init__(
        self, installation: Installation, start_s: float, limit_s: float, context: ExitStack
    ) -> None:
        super().__init__(installation, start_s, limit_s, context)
        self.process_id = 0
        """The process id of slurmctld."""
        _, self.port = self.reserved_port()
        self.munge: Path | None = None
        """The socket of its munge; None if every sender is believed."""
        self.cluster: Mapping[str, Node] = {}
        """The nodes that have registered, by name; connections are closed as long as there is none."""
        self.orders: list[Any] = []
        self._version = installation.release.protocol
        self._began_s: dict[str, int] = {}
        """When the daemon of a node was started."""
        self._first_of: dict[int, str] = {}
        """The node with the script of each job that runs."""
        self._resumed: list[str] = []
        """Nodes that an operator has changed, and that have not been asked to register since."""

    @cached_property
    def _authentication(self) -> Authentication:
        """How nodes authenticate their messages, as the daemons do."""
        return Stated() if self.munge is None else Munge(str(self.munge))

    def cpu_s(self) -> float:
        """Seconds of CPU time that slurmctld has used."""
        return time.clock_gettime(~self.process_id << 3 | _OF_A_PROCESS)

    def begin(self, nodes: Mapping[str, Node], at_s: float) -> None:
        """Have all nodes register by this time. They do so twice: the controller's first pings, which no node
        answers yet, may fail after the first registration; since 25.05, such nodes are used only after the
        next pings, minutes later."""
        self.cluster = nodes
        for until_s in ((self.clock.now_s + at_s) / 2, at_s):
            self.register(nodes)
            self.serve_until(until_s)

    def serve_until(self, at_s: float) -> None:
        """Let time pass, and answer what is asked meanwhile."""
        while not self.advance(at_s):
            self.serve()

    def register(self, names: Iterable[str]) -> None:
        """Register these nodes. Raises ProtocolError if the controller rejects one.

        A node whose daemon began later than before has lost its jobs, as it has those that it does not
        name."""
        for name in names:
            node = self.cluster[name]
            now_s = int(self.clock.now_s)
            began_s = self._began_s.setdefault(name, now_s)
            cores = max(1, int(node.cores))
            types = Counter(None if kind == UNTYPED else kind for kind in node.gpus)
            gpus = (node_gres("gpu", n, kind, cores) for kind, n in types.items())
            others = (node_gres(resource, n, None, cores) for resource, n in node.others.items())
            steps = (of_job(job, BATCH_STEP) for job, first in self._first_of.items() if first == name)
            registration = NodeRegistration(
                sent=now_s,
                started=began_s,
                host=name,
                node=name,
                architecture="x86_64",
                operating_system="Linux",
                cpus=cores,
                cores_per_socket=cores,
                memory=max(1, node.memory_mib),
                disk=1_000_000,
                up_time_s=now_s - began_s + 100,
                steps=(*steps,),
                gres=(*gpus, *others),
                version=self.installation.release.name,
            )
            answer = self.ask(registration)
            if isinstance(answer, ReturnCode) and answer.code != SUCCESS:
                raise ProtocolError(f"node {name} cannot register: {reason(answer.code)}")

    def update_nodes(self, are_up: Mapping[str, bool]) -> None:
        """Report that some nodes do not respond: the controller ends or requeues what runs there. Others have
        been repaired."""
        down = ("State=DOWN", "Reason=it does not respond")
        for is_up, words in ((False, down), (True, ("State=RESUME",))):
            if names := [name for name, up in are_up.items() if up is is_up]:
                self.slurm("scontrol", "update", f"NodeName={','.join(names)}", *words)
        repaired = [name for name, up in are_up.items() if up]
        for name in repaired:
            self._began_s.pop(name, None)
        self.register(repaired)

    def changed(self, words: Sequence[str]) -> None:
        """Note that an operator has carried out this command. Since 23.11, a node that is resumed is used
        only when it has registered again, for which the controller asks without a name: all nodes share an
        address."""
        for word in words:
            key, _, nodes = word.partition("=")
            if key.lower() == "nodename":
                self._resumed += self.cluster if nodes.upper() == "ALL" else node_names(nodes)

    def ask(self, body: Any) -> Any:
        """The body of the controller's answer; meanwhile its own requests are answered."""
        address = "127.0.0.1", self.port
        with self._blaming_its_death(), socket.create_connection(address, LIMIT_S) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            send(connection, message(body, version=self._version), self._authentication)
            self.wait_for(connection.fileno())
            return receive(connection, self._authentication).body

    def submit(self, requested: Sequence[Any]) -> Any:
        """The answer to the submission of a job, or of the components of a heterogeneous one; those with
        options that are not in our messages are submitted by Slurm's own `sbatch`."""
        if not any(one.others for one in requested):
            descriptions = tuple(described(one) for one in requested)
            return self.ask(descriptions[0] if len(descriptions) == 1 else HeterogeneousJob(descriptions))
        words = [word for one in requested for word in (":", *words_of(one))][1:]
        try:
            printed = self.slurm("sbatch", *words, "--parsable", "--wrap=:", variables={"SIL_USER": "0"})
        except CommandFailed as error:
            return ReturnCodeWithText(INVALID_ARGUMENT, error.said)
        return Submitted(of_job(int(printed.partition(";")[0])), 0, SUCCESS, None)

    def serve(self) -> None:
        """Answer one request."""
        try:
            connection, _ = self.nodes.accept()
        except BlockingIOError:
            return
        if not self.cluster:
            connection.close()
            return
        with self._blaming_its_death(), connection:
            connection.settimeout(LIMIT_S)
            request = receive(connection, self._authentication)
            if request.type not in NEVER_ANSWERED:
                first = next(iter(self.cluster))  # which one it is does not matter
                # Of a job that is to end, no process is left, and there is no epilog.
                gone = JOB_ALREADY_COMPLETE if isinstance(request.body, KillJob) else None
                send(connection, reply(request, first, gone), self._authentication)
        if request.type == MessageType.REQUEST_NODE_REGISTRATION_STATUS:
            resumed, self._resumed = self._resumed, []
            self.register(name for name in dict.fromkeys(resumed) if name in self.cluster)
        order = request.body
        if isinstance(order, BatchJobLaunch):
            self._first_of[order.job] = node_names(order.nodes)[0]
        elif isinstance(order, KillJob):
            self._first_of.pop(order.job, None)
        if isinstance(order, BatchJobLaunch | KillJob | SuspendJob):
            self.orders.append(order)

    @contextmanager
    def _blaming_its_death(self) -> Iterator[None]:
        """Connections that break are a consequence if the controller has died. Raises ControllerDied."""
        try:
            yield
        except (OSError, ProtocolError):
            self.settle()
            raise
