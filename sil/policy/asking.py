"""How policies are asked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler import UserError

Seen = Mapping[str, NDArray[Any]]


class Policy:
    """A model, asked for actions. Copies share it, since each run has a copy of its scheduler."""

    def __init__(self, model: Any) -> None:
        self._model = model
        predict = getattr(model, "predict", None)
        self._predict = predict if callable(predict) else None
        known = () if self._predict is None else inspect.signature(self._predict).parameters
        self._is_masked = "action_masks" in known
        self._options = {"deterministic": True} if "deterministic" in known else {}

    def action(self, seen: Seen) -> int:
        """For the only row of these arrays, of which the model gets copies."""
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

    def __deepcopy__(self, _: Any) -> Policy:
        return copy(self)
