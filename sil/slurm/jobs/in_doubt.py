"""Jobs whose run the controller has ended by itself: some of them run again, the others are over."""

from __future__ import annotations

from collections.abc import Iterator

from sil.slurm.controller import Controller
from sil.slurm.jobs import asked
from sil.slurm.jobs.ended import ALIVE, COMPLETED, COMPLETING, MEANINGS, EndedJobs
from sil.slurm.jobs.known import KnownJobs


class JobsInDoubt:
    """The state in which a run has ended early, by name; only the controller knows whether it runs again."""

    def __init__(self, controller: Controller, jobs: KnownJobs) -> None:
        self._controller = controller
        self._jobs = jobs
        self._ended = EndedJobs(controller.folder / "jobcomp.txt")
        self._states: dict[str, str] = {}

    def add(self, name: str, state: str) -> None:
        self._states[name] = state

    def over(self) -> Iterator[tuple[str, str]]:
        """The names of those that are over since the last call, each with the reason as a clause."""
        for name, state in self._ended.new():
            if state != COMPLETED and self._jobs.get(name) is not None:
                self.add(name, state)
        if not self._states:
            return
        now = asked.states(self._controller, self._states)
        for name, state in [*self._states.items()]:
            if now.get(name) == COMPLETING:
                continue
            del self._states[name]
            if self._jobs.get(name) is not None and now.get(name) not in ALIVE:
                yield name, f"{MEANINGS.get(state, 'it is over')} ({state})"
