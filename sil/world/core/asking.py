"""The loop for policies in Python: it returns whenever one has to choose a job, and goes on with the answer.

Many replays on identical nodes go on together, each with its own clock and queue.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from scheduler.core.arrays import floats, integers
from sil.world.core.codes import ALL_ENDED, ASKS, GOES_ON, NO_ANSWER, NO_JOB, ROUND, STUCK
from sil.world.core.identical import LoopOnIdenticalNodes
from sil.world.core.observation import Views


class PolicyLoop(LoopOnIdenticalNodes):
    """A replay of which a policy decides the rounds."""

    def go_on(self, views: Views, at: int) -> int:
        """Go on until a job in the window fits when a round is due, or all jobs have ended. Returns the
        state."""
        while not self.is_over():
            kind = self.next_event()
            if self.now_s == inf:
                return STUCK
            if kind == ROUND:
                self.begin_round()
                if self.nodes.n_waiting > 0:
                    views.begin_pass(self.nodes, at)
                    if views.observe(self.nodes, at, self.now_s) > 0:
                        return ASKS
                    self.carry_out(0)
            else:
                self.happens(kind)
            self.note_what_is_due()
        views.write_nothing(at)
        return ALL_ENDED

    def answered(self, views: Views, at: int, row: int) -> int:
        """Start the job in a row, or end the pass. Returns the state."""
        if row < views.window:
            views.choose(self.nodes, at, row, self.now_s)
            if views.observe(self.nodes, at, self.now_s) > 0:
                return ASKS
        self.carry_out(views.end_pass(self.nodes, self.now_s))
        self.note_what_is_due()
        return self.go_on(views, at)


class PolicyAnswers:
    """By replay: what the policy is asked and answers, and what comes of it, in `numbers`.

    * state: GOES_ON, ASKS, ALL_ENDED or STUCK
    * action: for `Views.chosen_row`; NO_ANSWER is no action
    * is_excluded: by the mask, as what follows of the last action
    * asked_s, job (that it started, or NO_JOB), wait_s, run_s, size (0 without a job); now_s
    """

    def __init__(self, n: int) -> None:
        numbers: dict[str, Any] = {name: integers(n) for name in ("state", "action", "job", "size")}
        numbers |= {name: floats(n) for name in ("asked_s", "wait_s", "run_s", "now_s")}
        numbers["is_excluded"] = np.zeros(n, np.bool_)
        self.numbers = numbers
        self.state, self.action, self.job, self.size = (
            numbers[k] for k in ("state", "action", "job", "size")
        )
        self.asked_s, self.wait_s, self.run_s, self.now_s = (
            numbers[k] for k in ("asked_s", "wait_s", "run_s", "now_s")
        )
        self.is_excluded = numbers["is_excluded"].view(np.uint8)
        numbers["state"][:], numbers["action"][:], numbers["job"][:] = ALL_ENDED, NO_ANSWER, NO_JOB

    def note_answer(self, replay: PolicyLoop, views: Views, at: int) -> int:
        """Returns the row of the job that the action starts; see `Views.chosen_row`."""
        action = self.action[at]
        self.is_excluded[at] = views.is_excluded(at, action)
        self.asked_s[at] = replay.now_s
        self.job[at], self.wait_s[at], self.run_s[at], self.size[at] = NO_JOB, 0.0, 0.0, 0
        row = views.chosen_row(at, action)
        if row < views.window:
            slot = replay.nodes.tree.slot[views.places[at, row]]
            job = replay.nodes.job[slot]
            self.job[at], self.wait_s[at] = job, replay.now_s - replay.nodes.began_s[slot]
            self.run_s[at], self.size[at] = replay.run_s[job], replay.size[job]
        return row

    def give(self, replays: list[PolicyLoop | None], views: Views) -> None:
        """Let replays that ask go on with their actions; the facts are those since the last action."""
        for at, replay in enumerate(replays):
            if replay is not None:
                self.go_on(replay, views, at)

    def go_on(self, replay: PolicyLoop, views: Views, at: int) -> None:
        state = self.state[at]
        if state == GOES_ON:
            state = replay.go_on(views, at)
        elif state == ASKS and self.action[at] != NO_ANSWER:
            replay.facts.n, replay.facts.n_decisions = 0, 0
            state = replay.answered(views, at, self.note_answer(replay, views, at))
        self.state[at], self.action[at], self.now_s[at] = state, NO_ANSWER, replay.now_s
