"""Numba without `.numba_config.yaml` of the current folder, which could name a folder of compiled code."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any, cast

if "numba" not in sys.modules:
    modules = cast("dict[str, Any]", sys.modules)
    found = {name: modules[name] for name in ("yaml",) if name in modules}
    modules["yaml"] = None  # Numba reads the file as it is imported, if it can import this
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from numba.core import config

    del modules["yaml"]
    modules.update(found)
    cast(Any, config)._config_fname = os.devnull
