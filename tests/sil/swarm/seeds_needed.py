"""How many seeds a swarm needs to find each bug: python -m tests.sil.swarm.seeds_needed [PART OF A NAME]."""

from __future__ import annotations

import sys

from scheduler.rules import Violation
from sil.swarm.case import drawn
from sil.swarm.simulation import verdict_on
from tests.sil.swarm.seeded_bugs import BUGS, Bug

ENOUGH = 10_000


def first_violation(bug: Bug, n_seeds: int = ENOUGH) -> tuple[int, Violation] | None:
    """The first seed whose case shows the bug."""
    with bug.seeded():
        for seed in range(n_seeds):
            violation = verdict_on(drawn(seed)).violation
            if violation is not None:
                return seed, violation
    return None


def main(parts: list[str]) -> None:
    for bug in BUGS:
        if not parts or any(part in bug.name for part in parts):
            found = first_violation(bug)
            needed, rule = ("none", "") if found is None else (f"{found[0] + 1:,}", found[1].rule)
            print(f"{needed:>6}  {bug.name}  ({rule})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
