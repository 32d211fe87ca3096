"""What displacement costs the jobs of the displaced runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.managers.commitments import Run
from scheduler.mapping.etc import EtcMatrix, ReadyTimes


def loss_s(victims: Sequence[Run], etc: EtcMatrix, ready: ReadyTimes) -> float:
    """By how many seconds in all the expected completions of the victims' jobs move.

    Row k of `etc` is the job of victim k; `ready` are the ready times without the victims and with the runs
    that displace them. The jobs start anew, one after another in the order given, each where it is complete
    first (ties: the lower resource): an estimate, since their queue's scheduler may map them otherwise.
    Infinite if one can run nowhere.
    """
    machine_s, lost_s = ready.machine_s.copy(), 0.0
    for k, victim in enumerate(victims):
        now = ReadyTimes(machine_s, ready.members)
        completion_s = np.concatenate([now.machine_s, now.cluster_s]) + etc.row(k)
        resource = int(completion_s.argmin())
        machine_s[list(ready.machines_of(resource))] = completion_s[resource]
        lost_s += float(completion_s[resource]) - victim.completion_s
    return lost_s
