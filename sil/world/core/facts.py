"""What the compiled loop records: facts of a trace, and decisions."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import floats, integers, larger


class Facts:
    """A chunk of facts in order, and of decisions. `texts` are of facts in some places.

    What a job that starts holds is in the rows of `held` up to its `held_end`, from place 1 on; `whole_cores`
    is that of a job that starts on whole nodes of which others have parts, else 0.
    """

    def __init__(self, room: int) -> None:
        self.n, self.n_decisions = 0, 0
        self.room, self.room_for_decisions = room, room
        self.time_s, self.expected_s, self.asked_s = floats(room), floats(room), floats(room)
        self.event, self.held = np.zeros(room, np.uint8), np.zeros((room, 3), np.int64)
        self.job, self.run, self.held_end = integers(room), integers(room), integers(room + 1)
        self.whole_cores = integers(room)
        self.n_waiting, self.n_started = integers(room), integers(room)
        self.texts = dict[int, str]()

    def note(self, time_s: float, event: int, job: int, run: int, expected_s: float) -> None:
        """Add a fact that holds nothing so far."""
        n = self.n
        if n == self.room:
            self.room = 2 * n
            self.time_s, self.expected_s = larger(self.time_s, 2 * n), larger(self.expected_s, 2 * n)
            self.event, self.job = larger(self.event, 2 * n), larger(self.job, 2 * n)
            self.run, self.held_end = larger(self.run, 2 * n), larger(self.held_end, 2 * n + 1)
            self.whole_cores = larger(self.whole_cores, 2 * n)
        self.time_s[n], self.event[n], self.job[n] = time_s, event, job
        self.run[n], self.expected_s[n] = run, expected_s
        self.whole_cores[n], self.held_end[n + 1] = 0, self.held_end[n]
        self.n = n + 1

    def say(self, time_s: float, event: int, job: int, text: str) -> None:
        """Add a fact with a text."""
        self.note(time_s, event, job, 0, 0.0)
        self.texts[self.n - 1] = text

    def decided(self, now_s: float, n_waiting: int, n_started: int) -> None:
        n = self.n_decisions
        if n == self.room_for_decisions:
            self.room_for_decisions = 2 * n
            self.asked_s, self.n_waiting = larger(self.asked_s, 2 * n), larger(self.n_waiting, 2 * n)
            self.n_started = larger(self.n_started, 2 * n)
        self.asked_s[n], self.n_waiting[n], self.n_started[n] = now_s, n_waiting, n_started
        self.n_decisions = n + 1

    def hold(self, first: int, second: int, third: int) -> None:
        """What starts by the last fact holds an interval of nodes, too, or a node with chunks and the bits of
        GPUs."""
        at = self.held_end[self.n]
        if at == self.held.shape[0]:
            self.held = larger(self.held, 2 * at)
        self.held[at, 0], self.held[at, 1], self.held[at, 2] = first, second, third
        self.held_end[self.n] = at + 1
