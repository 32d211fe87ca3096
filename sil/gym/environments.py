"""Environments of Gymnasium, one or many, over a batch of episodes that go on together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from scheduler.messages import UserError, counted

S = TypeVar("S")
Numbers = NDArray[np.float64]
Observation = dict[str, NDArray[Any]]
Options = Mapping[str, Any]


def reward_of(
    given: str | Callable[[S], object], known: Mapping[str, Callable[[S], Numbers]], of: str, n: int
) -> Callable[[S], Numbers]:
    """The reward of that name, or the function itself, for `n` environments. Raises UserError, and whenever
    the function does not return a number for each."""

    def for_each(steps: S) -> Numbers:
        rewards: Any = given(steps)  # type: ignore[operator]
        if np.shape(rewards) != (n,):
            numbers = f"expected an array with {counted(n, 'number')}"
            raise UserError(f"the reward function returned {rewards!r}; {numbers}")
        return np.asarray(rewards, np.float64)

    if not isinstance(given, str) and callable(given):
        return for_each
    if given not in known:
        raise UserError(f"reward is {given!r}; expected one of {', '.join(known)}, or a function of {of}")
    return known[given]


class Batch(Protocol):
    """Episodes that go on together. Arrays have a row for each; the spaces are those of one episode.

    * `begin`: a new episode takes a place. Raises UserError for unknown options.
    * `act`: the rewards of actions; of episodes that do not act, 0.
    * `over`: which episodes have ended; `seen`: what policies see now, in arrays that change with the next
      action; `info`: what they do not see, in new arrays.
    """

    n: int
    observation_space: spaces.Dict
    action_space: spaces.Discrete

    def begin(self, at: int, rng: np.random.Generator, options: Options) -> None: ...

    def act(self, actions: NDArray[np.int64], acting: NDArray[np.bool_]) -> Numbers: ...

    @property
    def over(self) -> NDArray[np.bool_]: ...

    @property
    def seen(self) -> Observation: ...

    @property
    def info(self) -> Observation: ...


def _whole(actions: Any, batch: Batch, acting: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The actions, of which those that count are in the action space. Raises UserError."""
    given, n = np.asarray(actions), int(batch.action_space.n)
    if given.shape != acting.shape or not np.issubdtype(given.dtype, np.integer):
        raise UserError(f"the action is {actions!r}; expected a whole number, 0 to {n - 1}")
    if len(outside := given[acting & ((given < 0) | (given >= n))]):
        raise UserError(f"the action is {outside[0]}; expected one of the action space, 0 to {n - 1}")
    return given.astype(np.int64)


class Single(gymnasium.Env[Observation, np.int64]):
    """A batch of one episode."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (a dictionary, as Gymnasium has it)

    def __init__(self, batch: Batch, render_mode: str | None) -> None:
        if render_mode not in (None, "ansi"):
            raise UserError(f"render_mode is {render_mode!r}; expected 'ansi' (text) or None")
        self._batch, self.render_mode = batch, render_mode
        self.observation_space, self.action_space = batch.observation_space, batch.action_space  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._batch.begin(0, self.np_random, options or {})
        return self._observation, self._info

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._batch.over[0]:
            raise UserError("no episode is under way; call reset() before the next step")
        acting = np.ones(1, np.bool_)
        rewards = self._batch.act(_whole(np.ravel(action), self._batch, acting), acting)
        over = bool(self._batch.over[0])
        return self._observation, float(rewards[0]), over, False, self._info

    def render(self) -> str | None:
        """With the mode "ansi", a line on the last action and what may be done next; otherwise None."""
        if self.render_mode is None:
            return None
        said = ", ".join(f"{name} {value}" for name, value in self._info.items())
        return f"{said}; {int(self.action_masks().sum())} of {self._batch.action_space.n} actions are valid"

    def action_masks(self) -> NDArray[np.bool_]:
        """The valid actions, as sb3-contrib asks for them."""
        return np.asarray(self._batch.seen["action_mask"][0], dtype=np.bool_)

    @property
    def _observation(self) -> Observation:
        return {name: array[0].copy() for name, array in self._batch.seen.items()}

    @property
    def _info(self) -> dict[str, Any]:
        return {name: array[0].item() for name, array in self._batch.info.items()}


class Vector(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """A batch of several episodes: after the end of one, the next step begins another in its place, whatever
    its action."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, batch: Batch) -> None:
        self._batch, self.num_envs = batch, batch.n
        self.single_observation_space, self.single_action_space = batch.observation_space, batch.action_space
        self.observation_space = batch_space(batch.observation_space, batch.n)
        self.action_space = batch_space(batch.action_space, batch.n)
        self._rngs: list[np.random.Generator] = []
        self._of_all = np.ones(batch.n, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Environment k is seeded with `seed` + k, or with its own of several seeds."""
        n = self.num_envs
        if seed is not None or not self._rngs:
            seeds = [None] * n if seed is None else seed
            if isinstance(seeds, int):
                seeds = [seeds + k for k in range(n)]
            if len(seeds) != n:
                raise UserError(f"there are {len(seeds)} seeds for {n} environments; give one for each")
            self._rngs = [seeding.np_random(each)[0] for each in seeds]
        for at, rng in enumerate(self._rngs):
            self._batch.begin(at, rng, options or {})
        return self._observation, self._info

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        if not self._rngs:
            raise UserError("no episode is under way; call reset() before the first step")
        if np.shape(actions) != (self.num_envs,):
            raise UserError(
                f"the actions have the shape {np.shape(actions)}; expected one for each of {self.num_envs} "
                "environments"
            )
        ended = self._batch.over
        for at in np.flatnonzero(ended):
            self._batch.begin(int(at), self._rngs[at], {})
        rewards = self._batch.act(_whole(actions, self._batch, ~ended), ~ended)
        return self._observation, rewards, self._batch.over, np.zeros(self.num_envs, np.bool_), self._info

    @property
    def _observation(self) -> Observation:
        return {name: array.copy() for name, array in self._batch.seen.items()}

    @property
    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = self._batch.info
        return info | {f"_{name}": self._of_all for name in info}
