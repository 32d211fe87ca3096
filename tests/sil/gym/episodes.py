"""Episodes of the environments, played to their end by policies of which the schedules are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import sil.gym as sil_gym
from sil.world.core.codes import IS_IN_TIME

Seen = dict[str, NDArray[Any]]
Step = tuple[Seen, float, bool, dict[str, Any]]

assert sil_gym.__doc__  # importing it registers the environments


def fcfs(seen: Seen) -> int:
    """The first of the queue, if it fits; otherwise, wait."""
    return 0 if seen["action_mask"][0] else len(seen["action_mask"]) - 1


def easy(seen: Seen) -> int:
    """The first of the queue that fits and does not delay the first one; otherwise, wait."""
    in_time = np.flatnonzero(seen["jobs"][:, IS_IN_TIME])
    return int(in_time[0]) if len(in_time) else len(seen["action_mask"]) - 1


def unpredictable(seed: int) -> Callable[[Seen], int]:
    """Some action, valid or not, that depends on nothing but what is seen."""

    def act(seen: Seen) -> int:
        digest = int.from_bytes(seen["jobs"].tobytes()[:4096:37] + seen["machine"].tobytes(), "little")
        return (digest ^ seed) % len(seen["action_mask"])

    return act


def played(env: gymnasium.Env[Any, Any], policy: Callable[[Seen], int], **reset: Any) -> Iterator[Step]:
    """What each step of an episode returns, from its reset on (with a reward of 0)."""
    seen, info = env.reset(**reset)
    yield seen, 0.0, False, info
    is_over = False
    while not is_over:
        seen, reward, is_over, is_truncated, info = env.step(policy(seen))
        assert not is_truncated
        yield seen, float(reward), is_over, info
