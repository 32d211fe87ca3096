"""Environments of Gymnasium: to learn policies that schedule.

Importing this package registers `sil/Backfill-v0` and `sil/Mapping-v0`, which `gymnasium.make` and
`gymnasium.make_vec` then know. `sil.from_policy` makes a scheduler of what was learned.
"""

from __future__ import annotations

from scheduler import UserError

try:
    from gymnasium import register
except ImportError as error:
    raise UserError(
        "sil.gym needs Gymnasium, which is not installed; install it with: pip install 'sil-testbed[gym]'"
    ) from error

for _name in ("Backfill", "Mapping"):
    _module = f"sil.gym.{_name.lower()}"
    register(f"sil/{_name}-v0", f"{_module}:{_name}", vector_entry_point=f"{_module}:{_name}Vector")
