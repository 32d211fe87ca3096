"""Learned policies as schedulers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from scheduler import UserError
from sil.declared import whole_number
from sil.policy.asking import Policy

if TYPE_CHECKING:
    from sil.policy.backfill import BackfillPolicy
    from sil.policy.mapping import MappingPolicy

__all__ = ["from_policy"]

DEFAULT_WINDOW = 128


def from_policy(
    model: Any, *, environment: str = "sil/Backfill-v0", window: int | None = None
) -> BackfillPolicy | MappingPolicy:
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
    # Imported here, since each loads what the other does without.
    if environment == "sil/Backfill-v0":
        from sil.policy.backfill import BackfillPolicy

        return BackfillPolicy(Policy(model), _window_of(model, window))
    if environment == "sil/Mapping-v0":
        from sil.policy.mapping import MappingPolicy

        return MappingPolicy(Policy(model), _window_of(model, window))
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
