"""Learned policies as schedulers: how a policy is asked, and what becomes of its answers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.mapping.placer import MappingPlacer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import NodeSchedule, Schedule
from scheduler.rules import AllOthers, Kind
from sil.declared import whole_number
from sil.world.core.observation import Views

Seen = Mapping[str, NDArray[Any]]


class ActionModel:
    """A model, asked for actions. Copies share it, since each run has a copy of its scheduler."""

    def __init__(self, model: Any) -> None:
        self._model = model
        predict = getattr(model, "predict", None)
        self._predict = predict if callable(predict) else None
        known = () if self._predict is None else inspect.signature(self._predict).parameters
        self._is_masked = "action_masks" in known
        self._options = {"deterministic": True} if "deterministic" in known else {}

    def action(self, seen: Seen) -> int:
        """The action for the only row of these arrays, of which the model gets copies."""
        observation = {name: array[0].copy() for name, array in seen.items()}
        if self._predict is None:
            found = self._model(observation)
        else:
            options: dict[str, Any] = dict(self._options)
            if self._is_masked:
                options["action_masks"] = observation["action_mask"].astype(np.bool_)
            found = self._predict(observation, **options)
            found = found[0] if isinstance(found, tuple) else found
        last = len(observation["action_mask"]) - 1
        try:
            action = int(np.asarray(found).item())
        except (TypeError, ValueError, OverflowError):
            action = -1
        if action != found or not 0 <= action <= last:
            raise UserError(f"the policy answered {found!r}; expected the number of an action, 0 to {last}")
        return action

    def __deepcopy__(self, _: Any) -> ActionModel:
        return copy(self)


WAITS = "the policy lets it wait"


class BackfillByPolicy:
    """Asks a policy job by job: which of the first waiting jobs starts next, until none should or fits.

    It is asked while a job in its window fits. It sees what `sil/Backfill-v0` shows, and an action that the
    mask excludes means the same as there.
    """

    kind = Kind.FREE_NODES
    memoryless = True

    def __init__(self, policy: ActionModel, window: int) -> None:
        self._policy, self._window = policy, window
        self._views: Views | None = None

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        if not isinstance(problem, FreeNodesProblem):
            raise UserError("a policy of sil/Backfill-v0 schedules identical processors, not parts of nodes")
        queue, now_s = problem.free_nodes.queue, problem.now_s
        if self._views is None:
            self._views = Views(1, self._window, problem.free_nodes.n_nodes)
        views = self._views
        views.begin_pass(queue, 0)
        n_fitting = views.observe(queue, 0, now_s)
        try:
            while n_fitting:
                row = views.chosen_row(0, self._policy.action(views.seen))
                if row == self._window:
                    break
                views.choose(queue, 0, row, now_s)
                n_fitting = views.observe(queue, 0, now_s)
        finally:  # the queue is as before, whatever the policy raises
            views.end_pass(queue, now_s)
        starts = queue.chosen(now_s)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS))

    def __reduce__(self) -> tuple[type[BackfillByPolicy], tuple[ActionModel, int]]:
        """Copies have views of their own."""
        return BackfillByPolicy, (self._policy, self._window)


Floats = NDArray[np.float64]


class MappingPass:
    """Maps the jobs of a problem one by one, each to a machine.

    The policy sees the first jobs of the `window` that can run somewhere and are not mapped yet. Times are
    shown as t / (t + mean), by the mean of all finite expected times: 0 for no time, 1 for infinite.
    """

    def __init__(self, problem: MappingProblem, window: int) -> None:
        self.placer = MappingPlacer(problem)
        self.etc_s, self._window = problem.machine_etc_s, window
        self._can_run = np.isfinite(self.etc_s) & np.isfinite(self.placer.machine_s)
        self._left = np.flatnonzero(self._can_run.any(axis=1))
        finite = self.etc_s[np.isfinite(self.etc_s)]
        self._mean_s = float(finite.mean()) if len(finite) else 1.0

    @property
    def is_over(self) -> bool:
        return not len(self._left)

    @property
    def seen(self) -> dict[str, NDArray[Any]]:
        """The observation: arrays with one row."""
        window, ready_s = self._window, self.placer.machine_s
        rows, m = self._left[:window], len(ready_s)
        jobs, mask = np.zeros((window, m), np.float32), np.zeros((window, m), np.int8)
        jobs[: len(rows)], mask[: len(rows)] = self._scaled(self.etc_s[rows]), self._can_run[rows]
        if not len(rows):
            mask[0] = 1  # nothing happens, whatever is done
        left = len(self._left) / (len(self._left) + window)
        machine = np.append(self._scaled(ready_s - ready_s.min(initial=np.inf)), left).astype(np.float32)
        return {"jobs": jobs[None], "machine": machine[None], "action_mask": mask.reshape(1, -1)}

    def is_valid(self, action: int) -> bool:
        """Whether the mask includes an action."""
        row, j = divmod(action, len(self.placer.machine_s))
        return 0 <= row < min(len(self._left), self._window) and bool(self._can_run[self._left[row], j])

    def act(self, action: int) -> tuple[int, int]:
        """Map a job: the job and its machine. An action that the mask excludes maps the first job, to the
        machine that completes it first."""
        row, j = divmod(action, len(self.placer.machine_s))
        if not self.is_valid(action):
            row, j = 0, int((self.placer.machine_s + self.etc_s[self._left[0]]).argmin())
        i = int(self._left[row])
        self.placer.place(i, j)
        self._left = np.delete(self._left, row)
        return i, j

    def _scaled(self, times_s: Floats) -> Floats:
        finite_s = np.where(np.isfinite(times_s), times_s, 0.0)
        return np.where(np.isfinite(times_s), finite_s / (finite_s + self._mean_s), 1.0)


class MappingByPolicy:
    """Asks a policy job by job: which job is mapped next, and to which machine, until all are.

    It sees what `sil/Mapping-v0` shows, and an action that the mask excludes means the same as there. Jobs
    that can run nowhere now wait; none is mapped to a cluster.
    """

    kind = Kind.MAPPING

    def __init__(self, policy: ActionModel, window: int) -> None:
        self._policy, self._window = policy, window

    def schedule(self, problem: MappingProblem) -> Schedule:
        going = MappingPass(problem, self._window)
        while not going.is_over:
            going.act(self._policy.action(going.seen))
        return going.placer.schedule()


DEFAULT_WINDOW = 128


def from_policy(
    model: Any, *, environment: str = "sil/Backfill-v0", window: int | None = None
) -> BackfillByPolicy | MappingByPolicy:
    """A scheduler that asks a policy, learned in an environment of `sil.gym`: of the observation, it sees the
    same numbers as there, and its actions mean the same.

    * `model`: a function of an observation (a dictionary of arrays) that returns an action; or an object with
      a method `predict(observation)` that returns an action, or a pair of which it is the first, like the
      models of Stable-Baselines3 and sb3-contrib. If `predict` has the parameters `deterministic` and
      `action_masks`, they are True and the mask.
    * `environment`: "sil/Backfill-v0", for `sil.replay`, `sil.sweep` and `sil.Simulation`; or
      "sil/Mapping-v0", for `sil.Experiment`.
    * `window`: as in the environment; by default that of the model's `observation_space`, or 128.

    All runs share the model, so it must not change when it is asked. Raises UserError for what is no model,
    and for an unknown environment.
    """
    if environment == "sil/Backfill-v0":
        return BackfillByPolicy(ActionModel(model), _window_of(model, window))
    if environment == "sil/Mapping-v0":
        return MappingByPolicy(ActionModel(model), _window_of(model, window))
    raise UserError(f"environment is {environment!r}; expected sil/Backfill-v0 or sil/Mapping-v0")


def _window_of(model: Any, window: int | None) -> int:
    if not callable(model) and not callable(getattr(model, "predict", None)):
        raise UserError(
            f"{model!r} is no policy; expected a function of observations, or an object with a method predict"
        )
    seen: Callable[[str], Any] | None = getattr(model, "observation_space", None)
    learned = None if seen is None else int(seen["jobs"].shape[0])  # type: ignore[index]
    if window is not None:
        whole_number(window, "window")
    if None not in (window, learned) and window != learned:
        raise UserError(f"window is {window}, but the policy has learned with {learned}; leave it out")
    return window or learned or DEFAULT_WINDOW
