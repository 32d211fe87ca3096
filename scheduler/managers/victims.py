"""What displacement costs the jobs of the displaced runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.managers.availability import Availability
from scheduler.managers.commitments import Commitments, Run
from scheduler.mapping.etc import EtcMatrix, ReadyTimes
from scheduler.resource_manager import Experience


def loss_s(
    commitments: Commitments,
    availability: Availability,
    experience: Experience,
    now_s: float,
    victims: Sequence[Run],
    displacing: Iterable[Run],
) -> float:
    """By how many seconds in all the expected completions of the victims' jobs move if the runs `displacing`
    displace them. See `delay_s`."""
    ids = frozenset(victim.id for victim in victims)
    ready_s = commitments.ready_s().copy()
    for j in {j for victim in victims for j in victim.machines}:
        ready_s[j] = commitments.ready_s_without(j, ids, frozenset())
    for run in displacing:
        for j in run.machines:
            ready_s[j] = max(ready_s[j], run.completion_s)
    machine_s = np.where(availability.up, np.maximum(ready_s, now_s), np.inf)
    members = availability.members()
    etc = experience.estimate([victim.job for victim in victims], [len(usable) for usable in members])
    return delay_s(victims, etc, ReadyTimes(machine_s, members))


def delay_s(victims: Sequence[Run], etc: EtcMatrix, ready: ReadyTimes) -> float:
    """By how many seconds in all the jobs of `victims` end later than planned if they start anew.

    Row k of `etc` is the job of victim k; `ready` are the ready times without the victims and with the runs
    that displace them. The jobs start one after another in the order given, each where it is complete first
    (ties: the lower resource): an estimate, since their queue's scheduler may map them otherwise. Infinite if
    one can run nowhere.
    """
    machine_s, later_s = ready.machine_s.copy(), 0.0
    for k, victim in enumerate(victims):
        now = ReadyTimes(machine_s, ready.members)
        completion_s = np.concatenate([now.machine_s, now.cluster_s]) + etc.row(k)
        resource = int(completion_s.argmin())
        machine_s[list(ready.machines_of(resource))] = completion_s[resource]
        later_s += float(completion_s[resource]) - victim.completion_s
    return later_s
