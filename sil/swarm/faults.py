"""The kinds of faults of a swarm, by name, with their random parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from scheduler.model import JobId
from scheduler.ports import Clock
from sil.world.actual_runtimes import RandomStreams
from sil.world.failures import (
    FailingRuns,
    Hindrances,
    Outage,
    RandomFailures,
    SlowMachines,
    TimedChange,
    listed_outages,
    until,
)
from sil.world.monitors import Distortion, Noisy, Stale
from sil.world.remote.network import Crashes, MessageFault, NetworkPartition, Unreliable
from site_db.files.input_errors import MAX_VALUE


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one of KINDS."""

    kind: str
    parameters: Mapping[str, Any]

    @classmethod
    def drawn(cls, kind: str, rng: np.random.Generator, n_machines: int, until_s: float) -> Self:
        draws = KINDS[kind].draws
        return cls(kind, {name: draw(rng, n_machines, until_s) for name, draw in draws.items()})

    def mistake(self, n_machines: int) -> str | None:
        """What is wrong with a fault that a file names; None if it could have been drawn."""
        if self.kind not in KINDS:
            return f"there is no kind of fault '{self.kind}'"
        known = Fault.drawn(self.kind, np.random.default_rng(0), n_machines, 1.0).parameters
        if known.keys() != self.parameters.keys():
            return f"the parameters of '{self.kind}' are {', '.join(known)}"
        for name, value in self.parameters.items():
            match known[name], value:
                case list(), list():
                    fits = bool(value) and all(
                        type(place) is int and 0 <= place < n_machines for place in value
                    )
                case int(), int():
                    fits = 0 < value <= MAX_TIMES
                case float(), int() | float():
                    most = 1.0 if name == "share" else MAX_VALUE
                    fits = (0.0 if name == "from_s" else MIN_VALUE) <= value < most
                case _:
                    fits = False
            if not fits or type(value) is bool:
                return f"{name} is {value!r}, which '{self.kind}' cannot have"
        return None


@dataclass
class FaultyWorld:
    """The simulated world of a case, as its faults make it."""

    clock: Clock
    n_machines: int
    until_s: float
    n_interconnects: int = 0
    messages: list[MessageFault] = field(default_factory=list)
    changes: list[TimedChange] = field(default_factory=list)
    distortions: list[Distortion] = field(default_factory=list)
    slow: list[SlowMachines] = field(default_factory=list)
    failing: dict[JobId, FailingRuns] = field(default_factory=dict)
    crashes: Crashes | None = None
    clock_jumps: list[tuple[float, float]] = field(default_factory=list)
    decision_s: float = 0.0
    """How long a decision takes."""
    wrong_share: float = 0.0
    """The share of decisions that are wrong."""

    @property
    def hindrances(self) -> Hindrances | None:
        return Hindrances(self.slow, self.failing) if self.slow or self.failing else None

    @property
    def settled_s(self) -> float:
        """The time from which on manager and machines hear each other: the manager is up, and its clock,
        which stands still after a jump back, goes on."""
        down_s = 0.0 if self.crashes is None else self.crashes.down_s
        return self.until_s + max([down_s, *(offset_s for _, offset_s in self.clock_jumps)])

    def add(self, fault: Fault, streams: RandomStreams) -> None:
        KINDS[fault.kind].apply(self, streams.of(fault.kind), **fault.parameters)

    # What the kinds of faults do. Those of messages are in KINDS.

    def separate(self, _: np.random.Generator, machines: list[int], from_s: float, for_s: float) -> None:
        self.messages.append(NetworkPartition(frozenset(machines), from_s, min(from_s + for_s, self.until_s)))

    def crash(self, rng: np.random.Generator, between_s: float, down_s: float) -> None:
        self.crashes = Crashes(between_s, down_s, self.clock, rng, self.until_s)

    def fail(self, rng: np.random.Generator, between_s: float, repair_s: float) -> None:
        self._fail(RandomFailures(between_s, repair_s), [(j,) for j in range(self.n_machines)], rng)

    def fail_together(
        self, rng: np.random.Generator, machines: list[int], between_s: float, repair_s: float
    ) -> None:
        self._fail(RandomFailures(between_s, repair_s), [tuple(machines)], rng)

    def flap(
        self, rng: np.random.Generator, machines: list[int], between_s: float, times: int, each_s: float
    ) -> None:
        flapping = RandomFailures(between_s, each_s, times, each_s)
        self._fail(flapping, [(j,) for j in machines], rng)

    def _fail(self, of: RandomFailures, groups: list[tuple[Any, ...]], rng: np.random.Generator) -> None:
        self.changes += until(self.until_s, of.changes(groups, rng))

    def disconnect(self, _: np.random.Generator, from_s: float, for_s: float) -> None:
        if self.n_interconnects:
            self.changes += listed_outages([Outage("lan", from_s, min(from_s + for_s, self.until_s))])

    def slow_down(self, _: np.random.Generator, machines: list[int], factor: float) -> None:
        self.slow.append(SlowMachines(frozenset(machines), factor, 0.0, self.until_s))

    def fail_jobs(self, rng: np.random.Generator, share: float, after: float, times: int) -> None:
        for job in np.flatnonzero(rng.random(MAX_JOBS) < share).tolist():
            self.failing[JobId(job)] = FailingRuns(times, after)

    def delay_monitors(self, _: np.random.Generator, delay_s: float) -> None:
        self.distortions.append(Stale(delay_s))

    def falsify_monitors(self, rng: np.random.Generator, share: float, corrected_after_s: float) -> None:
        self.distortions.append(Noisy(share, corrected_after_s, rng))

    def change_clock(self, rng: np.random.Generator, jumps: int, most_s: float) -> None:
        times_s = sorted(rng.uniform(0.0, self.until_s, jumps).tolist())
        offsets_s = rng.uniform(-most_s, most_s, jumps).tolist()
        self.clock_jumps = [*zip(times_s, offsets_s, strict=True), (self.until_s, 0.0)]

    def decide_late(self, _: np.random.Generator, decision_s: float) -> None:
        self.decision_s = decision_s

    def decide_wrongly(self, _: np.random.Generator, share: float) -> None:
        self.wrong_share = share


MAX_JOBS = 1_000
MAX_TIMES = 1_000
MIN_VALUE = 1e-3
"""The least value of seconds and shares, except of times."""

Draw = Callable[[np.random.Generator, int, float], Any]
"""A parameter, given the number of machines and the time at which faults end."""


class FaultKind(NamedTuple):
    """How its parameters are drawn, in this order, and what it does to a world with them."""

    draws: Mapping[str, Draw]
    apply: Callable[..., None]


def _uniform(least: float, most: float) -> Draw:
    return lambda rng, n, until_s: round(float(rng.uniform(least, most)), 3)


def _seconds(most: float) -> Draw:
    """A time of up to this many seconds, all orders of magnitude alike."""
    return lambda rng, n, until_s: round(float(10.0 ** rng.uniform(0.0, np.log10(most))), 3)


def _machines(rng: np.random.Generator, n_machines: int, until_s: float) -> list[int]:
    """A random set of machines, in order; never empty."""
    n = int(rng.integers(1, n_machines + 1))
    return sorted(rng.permutation(n_machines)[:n].tolist())


def _now_and_then(rng: np.random.Generator, n_machines: int, until_s: float) -> float:
    """The mean time between events, of which there are up to ten."""
    return round(until_s * float(rng.uniform(0.1, 3.0)), 3)


def _moment(rng: np.random.Generator, n_machines: int, until_s: float) -> float:
    return round(float(rng.uniform(0.0, until_s)), 3)


def _few(rng: np.random.Generator, n_machines: int, until_s: float) -> int:
    return int(rng.integers(1, 5))


def _few_or_many(rng: np.random.Generator, n_machines: int, until_s: float) -> int:
    return int(rng.choice((1, 2, 3, 100)))


OUTAGE: Mapping[str, Draw] = {"from_s": _moment, "for_s": _seconds(3_000.0)}
REPAIRED: Mapping[str, Draw] = {"between_s": _now_and_then, "repair_s": _seconds(1_000.0)}


def _of_messages(how: Any) -> Callable[..., None]:
    def add(
        to: FaultyWorld, rng: np.random.Generator, share: float = 1.0, mean_s: float = 0.0, by_s: float = 0.0
    ) -> None:
        to.messages.append(Unreliable(how, rng, share, mean_s or by_s, to.until_s))

    return add


_FLAPS = {"between_s": _now_and_then, "times": _few, "each_s": _seconds(60.0)}

KINDS: dict[str, FaultKind] = {
    "lost messages": FaultKind({"share": _uniform(0.01, 0.4)}, _of_messages("lost")),
    "late messages": FaultKind({"mean_s": _seconds(300.0)}, _of_messages("late")),
    "repeated messages": FaultKind(
        {"share": _uniform(0.01, 0.5), "mean_s": _seconds(1_000.0)}, _of_messages("repeated")
    ),
    "reordered messages": FaultKind(
        {"share": _uniform(0.01, 0.5), "by_s": _seconds(1_000.0)}, _of_messages("reordered")
    ),
    "partition": FaultKind({"machines": _machines, **OUTAGE}, FaultyWorld.separate),
    "crashes": FaultKind({"between_s": _now_and_then, "down_s": _seconds(1_000.0)}, FaultyWorld.crash),
    "failures": FaultKind(REPAIRED, FaultyWorld.fail),
    "rack": FaultKind({"machines": _machines, **REPAIRED}, FaultyWorld.fail_together),
    "flapping": FaultKind({"machines": _machines, **_FLAPS}, FaultyWorld.flap),
    "interconnect": FaultKind(OUTAGE, FaultyWorld.disconnect),
    "slow machines": FaultKind({"machines": _machines, "factor": _uniform(1.0, 10.0)}, FaultyWorld.slow_down),
    "failing jobs": FaultKind(
        {"share": _uniform(0.05, 0.5), "after": _uniform(0.1, 1.0), "times": _few_or_many},
        FaultyWorld.fail_jobs,
    ),
    "stale monitors": FaultKind({"delay_s": _seconds(300.0)}, FaultyWorld.delay_monitors),
    "wrong monitors": FaultKind(
        {"share": _uniform(0.01, 0.3), "corrected_after_s": _seconds(300.0)}, FaultyWorld.falsify_monitors
    ),
    "clock": FaultKind({"jumps": _few, "most_s": _seconds(3_000.0)}, FaultyWorld.change_clock),
    "late decisions": FaultKind({"decision_s": _seconds(60.0)}, FaultyWorld.decide_late),
    "wrong decisions": FaultKind({"share": _uniform(0.01, 0.5)}, FaultyWorld.decide_wrongly),
}
"""All kinds; new ones come last, so that the cases of seeds change as little as possible."""
