"""The ports of schedulers and resource managers: small protocols with real and fake adapters; and the
notices that arrive through them, values that say what has happened, perhaps late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from scheduler.model import DispatchOrder, InterconnectReading, Job, JobId, MachineReading, NodeReading, RunId

P = TypeVar("P", contravariant=True)
D = TypeVar("D", covariant=True)


class Scheduler(Protocol[P, D]):
    """Decides for one queue in one round: a pure function of the problem, and of what it remembers.

    The problem and its answer are those of one kind (`scheduler.rules`): `MappingProblem` and `Schedule`,
    `FreeNodesProblem` or `TimeSharedProblem` and `NodeSchedule`. A class may declare, as attributes:

    * `kind`: a `Kind`, or its name. Without it, the class gets the problems of the command that runs it.
    * `memoryless = True`: it decides from the problem alone, so it is not called while no job fits.
    * `is_random = True`: its constructor takes a parameter `seed`, an integer, which the caller supplies.
    """

    def schedule(self, problem: P) -> D: ...


AnyScheduler = Scheduler[Any, Any]
"""A scheduler of a kind that is known only at run time."""


class Clock(Protocol):
    @property
    def now_s(self) -> float: ...


class Dispatcher(Protocol):
    """Carries out orders on the machines. The results reach the resource manager as notices."""

    def dispatch(self, order: DispatchOrder) -> None: ...

    def preempt(self, run: RunId) -> None: ...


@runtime_checkable
class CancellingDispatcher(Dispatcher, Protocol):
    """Tells users of jobs that are cancelled."""

    def give_up(self, job: JobId, why: str) -> None:
        """Tell the user of a job that it is not run again; reliable, and idempotent."""


@runtime_checkable
class SuspendingDispatcher(CancellingDispatcher, Protocol):
    """Suspends runs."""

    def suspend(self, run: RunId) -> None:
        """Stop a run, which keeps what it has done, and all that it uses but its CPUs."""

    def resume(self, run: RunId) -> None:
        """Let a suspended run continue."""


class UnreliableDispatcher(CancellingDispatcher, Protocol):
    """Sends orders to machines over a network that may lose, delay, repeat or reorder messages.

    A run id makes an order idempotent: it is started once however often its order arrives, and never after an
    order to stop it, whichever arrives first. The machine that leads a run, the first of its order, answers:
    `OrderReceived` when it starts, and when it is over one notice, which is repeated until acknowledged.
    """

    def abandon(self, run: RunId) -> None:
        """Stop a run, which no longer counts, even if it has ended."""

    def acknowledge(self, run: RunId) -> None:
        """The notice that a run is over has arrived."""

    def ping(self, machine: int) -> None:
        """Ask a machine to answer (`MachineAnswered`)."""


class Monitor(Protocol):
    """Watches machines and interconnects."""

    def news(self) -> Sequence[MachineReading | InterconnectReading]:
        """Readings that have changed since the last call, oldest first."""


class NodeMonitor(Protocol):
    """Watches nodes: whether they are up, and their local load."""

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Readings since the last call, oldest first."""


class RuntimeEstimator(Protocol):
    """Run-time estimates of rigid jobs; the nodes are identical."""

    def estimate_s(self, job: Job) -> float:
        """Estimated seconds of a submitted job; less than a millisecond counts as one."""

    def outlived_s(self, job: Job, ran_s: float) -> float:
        """A new estimate for a job that is still running after `ran_s`, its previous estimate."""

    def learn(self, job: Job, ran_s: float) -> None:
        """Add a completed run."""


class JobArrived(NamedTuple):
    """A job is submitted; the manager answers None, or the reason for refusing it, as a sentence."""

    job: Job


Act = Literal["cancel", "expire", "hold", "release", "requeue"]
"""What operators and users do with jobs that they have submitted. A job that waits expires when its deadline
cannot be kept any more; one that runs does not."""


class JobActedOn(NamedTuple):
    """Somebody does something with a job. If it is held or cancelled, it no longer waits."""

    job: JobId
    act: Act


class RunEnded(NamedTuple):
    """A run ended by itself: its job is complete or, if it `failed`, given up. `ran_s` is how long it ran,
    if its machine has measured that; `exit_code` is not 0 for a job that says itself that it failed."""

    run: RunId
    ended_s: float
    failed: bool = False
    ran_s: float | None = None
    exit_code: int = 0

    def run_time_s(self, began_s: float) -> float:
        """How long it ran; as far as is known, it began at `began_s`."""
        return self.ended_s - began_s if self.ran_s is None else self.ran_s


class RunPreempted(NamedTuple):
    """A run was stopped by a preemption order: its job is not complete."""

    run: RunId


class RunLost(NamedTuple):
    """A run was lost, or its order could not be carried out, at `lost_s`, since the machines (by index) and
    interconnects (by name) in `found_down` were down; or it failed, by the fault of its job, `failed_job`.
    Its job is not complete."""

    run: RunId
    lost_s: float
    found_down: tuple[int | str, ...] = ()
    failed_job: JobId | None = None

    @property
    def readings(self) -> list[MachineReading | InterconnectReading]:
        """The equivalent readings of a monitor."""
        return [
            MachineReading(subject, False, self.lost_s)
            if isinstance(subject, int)
            else InterconnectReading(subject, False, self.lost_s)
            for subject in self.found_down
        ]


class RunReleased(NamedTuple):
    """A run is ending and its nodes are free; `RunEnded` follows. Only some sites report this."""

    run: RunId


class OrderReceived(NamedTuple):
    """The order for a run has arrived, and it has started (`UnreliableDispatcher`)."""

    run: RunId


class OrderRefused(NamedTuple):
    """Machines of an order are in use by runs that have not stopped yet (`UnreliableDispatcher`)."""

    run: RunId


class MachineAnswered(NamedTuple):
    """A machine answers a ping (`UnreliableDispatcher`)."""

    machine: int


class MonitorNews(NamedTuple):
    """The monitor has new readings."""


class DrainChanged(NamedTuple):
    """Operators let no run start on some nodes from now on, or let runs start again."""

    nodes: tuple[int, ...]
    is_drained: bool
    reason: str = ""


class ReservationMade(NamedTuple):
    """From now on it is known that nodes are reserved between two times: a run there must be over before, or
    be of a job whose request names the reservation."""

    name: str
    nodes: tuple[int, ...]
    start_s: float
    end_s: float


class TimePassed(NamedTuple):
    """It is the time that the manager has set in `wakes_at_s`, or later."""


Notice = (
    JobArrived
    | RunEnded
    | RunPreempted
    | RunLost
    | RunReleased
    | OrderReceived
    | OrderRefused
    | MachineAnswered
    | MonitorNews
    | DrainChanged
    | ReservationMade
    | TimePassed
    | JobActedOn
)

METHOD_OF: Mapping[type[Notice], str] = {
    JobArrived: "on_job_arrived",
    RunEnded: "on_run_ended",
    RunPreempted: "on_run_preempted",
    RunLost: "on_run_lost",
    RunReleased: "on_run_released",
    OrderReceived: "on_order_received",
    OrderRefused: "on_order_refused",
    MachineAnswered: "on_answer",
    MonitorNews: "on_monitor_news",
    DrainChanged: "on_drain_changed",
    ReservationMade: "on_reservation_made",
    TimePassed: "on_time_passed",
    JobActedOn: "on_job_acted_on",
}
"""The method of `ResourceManager` for each kind of notice, by which journals and messages name it, too."""


def arguments_of(notice: Notice) -> tuple[Any, ...]:
    """The arguments of its method: the notice itself for `RunEnded` and `RunLost`, otherwise its fields."""
    return (notice,) if isinstance(notice, RunEnded | RunLost) else tuple(notice)


def notice_of(method: str, arguments: tuple[Any, ...]) -> Notice | None:
    """The notice of which these are the method and its arguments; None if there is no such method."""
    kind = next((kind for kind, name in METHOD_OF.items() if name == method), None)
    if kind is None:
        return None
    made: Notice = arguments[0] if kind in (RunEnded, RunLost) else kind(*arguments)
    return made
