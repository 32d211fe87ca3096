"""What the compiled loop records: facts of a trace, and decisions."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import floats, integers, larger

MOST_DIGITS = 22
"""Bytes of an interval: two nodes, a dash and a space."""


class Facts:
    """A chunk of facts in order, and of decisions."""

    def __init__(self, room: int) -> None:
        self.n, self.n_decisions = 0, 0
        self.room, self.room_for_decisions, self.room_for_text = room, room, 16 * room
        self.time_s, self.expected_s, self.asked_s = floats(room), floats(room), floats(room)
        self.event, self.text = np.zeros(room, np.uint8), np.zeros(16 * room, np.uint8)
        self.job, self.run, self.text_end = integers(room), integers(room), integers(room + 1)
        self.n_waiting, self.n_started = integers(room), integers(room)

    def note(self, time_s: float, event: int, job: int, run: int, expected_s: float) -> None:
        """Add a fact, of which nothing is used so far."""
        n = self.n
        if n == self.room:
            self.room = 2 * n
            self.time_s, self.expected_s = larger(self.time_s, 2 * n), larger(self.expected_s, 2 * n)
            self.event, self.job = larger(self.event, 2 * n), larger(self.job, 2 * n)
            self.run, self.text_end = larger(self.run, 2 * n), larger(self.text_end, 2 * n + 1)
        self.time_s[n], self.event[n], self.job[n] = time_s, event, job
        self.run[n], self.expected_s[n], self.text_end[n + 1] = run, expected_s, self.text_end[n]
        self.n = n + 1

    def decided(self, now_s: float, n_waiting: int, n_started: int) -> None:
        n = self.n_decisions
        if n == self.room_for_decisions:
            self.room_for_decisions = 2 * n
            self.asked_s, self.n_waiting = larger(self.asked_s, 2 * n), larger(self.n_waiting, 2 * n)
            self.n_started = larger(self.n_started, 2 * n)
        self.asked_s[n], self.n_waiting[n], self.n_started[n] = now_s, n_waiting, n_started
        self.n_decisions = n + 1

    def write_number(self, at: int, number: int) -> int:
        """Write digits. Returns the place after them."""
        n_digits, rest = 1, number
        while rest >= 10:
            rest //= 10
            n_digits += 1
        for x in range(at + n_digits - 1, at - 1, -1):
            self.text[x] = 48 + number % 10
            number //= 10
        return at + n_digits

    def byte(self, byte: int) -> None:
        """The text of what the last fact uses goes on with a byte."""
        at = self.text_end[self.n]
        if at == self.room_for_text:
            self.room_for_text *= 2
            self.text = larger(self.text, self.room_for_text)
        self.text[at], self.text_end[self.n] = byte, at + 1

    def number(self, number: int) -> None:
        """The text of what the last fact uses goes on with a number."""
        at = self.text_end[self.n]
        if at + MOST_DIGITS > self.room_for_text:
            self.room_for_text *= 2
            self.text = larger(self.text, self.room_for_text)
        self.text_end[self.n] = self.write_number(at, number)

    def nodes(self, first: int, last: int, is_first: bool) -> None:
        """The last fact uses these nodes, too, written as in `0-3 5`."""
        at = self.text_end[self.n]
        if at + MOST_DIGITS > self.room_for_text:
            self.room_for_text *= 2
            self.text = larger(self.text, self.room_for_text)
        if not is_first:
            self.text[at] = 32
            at += 1
        at = self.write_number(at, first)
        if first != last:
            self.text[at] = 45
            at = self.write_number(at + 1, last)
        self.text_end[self.n] = at
