"""A wheel for one kind of computer, with the compiled clock of Slurm's controller: `make wheel-with-clock`.

Other wheels are pure; there, the clock is compiled when it is first used.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WithClock(BuildHookInterface):
    """Runs only if HATCH_BUILD_HOOK_ENABLE_CUSTOM is set."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)
        from sil.slurm.clock.library import compile_to_ship, shipped_name

        name = shipped_name()
        library = Path(self.root) / "build" / name
        library.parent.mkdir(exist_ok=True)
        compile_to_ship(library)
        build_data["force_include"][str(library)] = f"sil/slurm/clock/{name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-linux_{platform.machine()}"
