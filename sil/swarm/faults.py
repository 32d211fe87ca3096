"""The kinds of faults of a swarm, by name, with their random parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from scheduler.model import JobId
from scheduler.ports import Clock
from sil.world.failures import (
    FailingRuns,
    Flapping,
    Hindrances,
    Outage,
    RandomFailures,
    SlowMachines,
    TimedChange,
    listed_outages,
    until,
)
from sil.world.monitors import Distortion, Noisy, Stale
from sil.world.random_streams import RandomStreams
from sil.world.remote.network import (
    Crashes,
    Delayed,
    Duplicated,
    Lost,
    MessageFault,
    Partition,
    Reordered,
    Until,
)
from site_db.files.input_errors import MOST


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one of KINDS."""

    kind: str
    parameters: Mapping[str, Any]

    @classmethod
    def drawn(cls, kind: str, rng: np.random.Generator, n_machines: int, until_s: float) -> Self:
        return cls(kind, KINDS[kind].draw(rng, n_machines, until_s))

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
                    fits = 0 < value <= MOST_TIMES
                case float(), int() | float():
                    most = 1.0 if name == "share" else MOST
                    fits = (0.0 if name == "from_s" else LEAST) <= value < most
                case _:
                    fits = False
            if not fits or type(value) is bool:
                return f"{name} is {value!r}, which '{self.kind}' cannot have"
        return None


@dataclass
class Faulty:
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
        """From when on manager and machines hear each other: the manager is up, and its clock, which stands
        still after a jump back, goes on."""
        down_s = 0.0 if self.crashes is None else self.crashes.down_s
        return self.until_s + max([down_s, *(offset_s for _, offset_s in self.clock_jumps)])

    def add(self, fault: Fault, streams: RandomStreams) -> None:
        KINDS[fault.kind].apply(self, streams.of(fault.kind), **fault.parameters)

    def message(self, fault: MessageFault) -> None:
        self.messages.append(Until(self.until_s, fault))

    def failures(self, of: RandomFailures, groups: list[tuple[Any, ...]], rng: np.random.Generator) -> None:
        self.changes += until(self.until_s, of.changes(groups, rng))


MOST_JOBS = 1_000
MOST_TIMES = 1_000
LEAST = 1e-3
"""Of seconds and shares, except of times."""

Draw = Callable[[np.random.Generator, int, float], Mapping[str, Any]]


class FaultKind(NamedTuple):
    """How its parameters are drawn, given the number of machines and the time at which faults end, and what
    it does with them."""

    draw: Draw
    apply: Callable[..., None]


def _some(rng: np.random.Generator, n_machines: int) -> list[int]:
    """A random set of machines, in order; never empty."""
    n = int(rng.integers(1, n_machines + 1))
    return sorted(rng.permutation(n_machines)[:n].tolist())


def _share(most: float) -> Draw:
    return lambda rng, n, until_s: {"share": round(float(rng.uniform(0.01, most)), 3)}


def _seconds(**most: float) -> Draw:
    """Up to so many seconds each, all orders of magnitude alike."""
    return lambda rng, n, until_s: {
        name: round(float(10.0 ** rng.uniform(0.0, np.log10(high))), 3) for name, high in most.items()
    }


def _now_and_then(rng: np.random.Generator, n_machines: int, until_s: float) -> Mapping[str, Any]:
    """The mean time between events, of which there are up to ten."""
    return {"between_s": round(until_s * float(rng.uniform(0.1, 3.0)), 3)}


def _lost(to: Faulty, rng: np.random.Generator, share: float) -> None:
    to.message(Lost(share, rng))


def _delayed(to: Faulty, rng: np.random.Generator, mean_s: float) -> None:
    to.message(Delayed(mean_s, rng))


def _duplicated(to: Faulty, rng: np.random.Generator, share: float, mean_s: float) -> None:
    to.message(Duplicated(share, mean_s, rng))


def _reordered(to: Faulty, rng: np.random.Generator, share: float, by_s: float) -> None:
    to.message(Reordered(share, by_s, rng))


def _partition(
    to: Faulty, rng: np.random.Generator, machines: list[int], from_s: float, for_s: float
) -> None:
    to.messages.append(Partition(frozenset(machines), from_s, min(from_s + for_s, to.until_s)))


def _crashes(to: Faulty, rng: np.random.Generator, between_s: float, down_s: float) -> None:
    to.crashes = Crashes(between_s, down_s, to.clock, rng, to.until_s)


def _failures(to: Faulty, rng: np.random.Generator, between_s: float, repair_s: float) -> None:
    singles: list[tuple[Any, ...]] = [(j,) for j in range(to.n_machines)]
    to.failures(RandomFailures(between_s, repair_s), singles, rng)


def _rack(
    to: Faulty, rng: np.random.Generator, machines: list[int], between_s: float, repair_s: float
) -> None:
    to.failures(RandomFailures(between_s, repair_s), [tuple(machines)], rng)


def _flapping(
    to: Faulty, rng: np.random.Generator, machines: list[int], between_s: float, times: int, each_s: float
) -> None:
    flapping = RandomFailures(between_s, each_s, Flapping(times, each_s))
    to.failures(flapping, [(j,) for j in machines], rng)


def _interconnect(to: Faulty, rng: np.random.Generator, from_s: float, for_s: float) -> None:
    if to.n_interconnects:
        to.changes += listed_outages([Outage("lan", from_s, min(from_s + for_s, to.until_s))])


def _slow(to: Faulty, rng: np.random.Generator, machines: list[int], factor: float) -> None:
    to.slow.append(SlowMachines(frozenset(machines), factor, 0.0, to.until_s))


def _poison(to: Faulty, rng: np.random.Generator, share: float, after: float, times: int) -> None:
    for job in np.flatnonzero(rng.random(MOST_JOBS) < share).tolist():
        to.failing[JobId(job)] = FailingRuns(times, after)


def _stale(to: Faulty, rng: np.random.Generator, delay_s: float) -> None:
    to.distortions.append(Stale(delay_s))


def _noisy(to: Faulty, rng: np.random.Generator, share: float, corrected_after_s: float) -> None:
    to.distortions.append(Noisy(share, corrected_after_s, rng))


def _clock(to: Faulty, rng: np.random.Generator, jumps: int, most_s: float) -> None:
    times_s = sorted(rng.uniform(0.0, to.until_s, jumps).tolist())
    offsets_s = rng.uniform(-most_s, most_s, jumps).tolist()
    to.clock_jumps = [*zip(times_s, offsets_s, strict=True), (to.until_s, 0.0)]


def _late(to: Faulty, rng: np.random.Generator, decision_s: float) -> None:
    to.decision_s = decision_s


def _wrong(to: Faulty, rng: np.random.Generator, share: float) -> None:
    to.wrong_share = share


def _draw_jumps(rng: np.random.Generator, n_machines: int, until_s: float) -> Mapping[str, Any]:
    return {"jumps": int(rng.integers(1, 5)), **_seconds(most_s=3_000.0)(rng, n_machines, until_s)}


def _with_machines(draw: Draw) -> Draw:
    return lambda rng, n, until_s: {"machines": _some(rng, n), **draw(rng, n, until_s)}


def _both(one: Draw, other: Draw) -> Draw:
    return lambda rng, n, until_s: {**one(rng, n, until_s), **other(rng, n, until_s)}


def _interval(most_s: float) -> Draw:
    return lambda rng, n, until_s: {
        "from_s": round(float(rng.uniform(0.0, until_s)), 3),
        **_seconds(for_s=most_s)(rng, n, until_s),
    }


def _draw_flaps(rng: np.random.Generator, n_machines: int, until_s: float) -> Mapping[str, Any]:
    return {"times": int(rng.integers(1, 5)), **_seconds(each_s=60.0)(rng, n_machines, until_s)}


def _draw_poison(rng: np.random.Generator, n_machines: int, until_s: float) -> Mapping[str, Any]:
    return {
        "share": round(float(rng.uniform(0.05, 0.5)), 3),
        "after": round(float(rng.uniform(0.1, 1.0)), 3),
        "times": int(rng.choice((1, 2, 3, 100))),
    }


KINDS: dict[str, FaultKind] = {
    "lost messages": FaultKind(_share(0.4), _lost),
    "late messages": FaultKind(_seconds(mean_s=300.0), _delayed),
    "repeated messages": FaultKind(_both(_share(0.5), _seconds(mean_s=1_000.0)), _duplicated),
    "reordered messages": FaultKind(_both(_share(0.5), _seconds(by_s=1_000.0)), _reordered),
    "partition": FaultKind(_with_machines(_interval(3_000.0)), _partition),
    "crashes": FaultKind(_both(_now_and_then, _seconds(down_s=1_000.0)), _crashes),
    "failures": FaultKind(_both(_now_and_then, _seconds(repair_s=1_000.0)), _failures),
    "rack": FaultKind(_with_machines(_both(_now_and_then, _seconds(repair_s=1_000.0))), _rack),
    "flapping": FaultKind(_with_machines(_both(_now_and_then, _draw_flaps)), _flapping),
    "interconnect": FaultKind(_interval(3_000.0), _interconnect),
    "slow machines": FaultKind(
        _with_machines(lambda rng, n, until_s: {"factor": round(float(rng.uniform(1.0, 10.0)), 3)}), _slow
    ),
    "failing jobs": FaultKind(_draw_poison, _poison),
    "stale monitors": FaultKind(_seconds(delay_s=300.0), _stale),
    "wrong monitors": FaultKind(_both(_share(0.3), _seconds(corrected_after_s=300.0)), _noisy),
    "clock": FaultKind(_draw_jumps, _clock),
    "late decisions": FaultKind(_seconds(decision_s=60.0), _late),
    "wrong decisions": FaultKind(_share(0.5), _wrong),
}
"""All kinds; new ones come last, so that the cases of seeds change as little as possible."""
