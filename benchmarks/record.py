"""Writes a benchmark's result as JSON with the machine, the version and the seed."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from sil.usable import VERSION

RESULTS = Path(__file__).parent / "results"


def keep(name: str, seed: int, results: Any) -> Path:
    """Write benchmarks/results/NAME.json."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    kept = {
        "benchmark": name,
        "version": VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "seed": seed,
        "results": results,
    }
    path.write_text(json.dumps(kept, indent=2) + "\n")
    return path
