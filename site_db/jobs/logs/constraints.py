"""Constraints of Slurm (`sbatch --constraint`) as features that each node of a job has.

<https://slurm.schedmd.com/sbatch.html#OPT_constraint>
"""

from __future__ import annotations

import re
from functools import lru_cache

_NAME = r"[^\s&|*,()\[\]]+"
_EITHER = re.compile(rf"{_NAME}(\|{_NAME})*")
_COUNTED = re.compile(rf"({_NAME})\*(\d{{1,9}})")


@lru_cache(4_096)
def features_of(constraint: str, nodes: int) -> frozenset[str] | None:
    """The features of `Request`, of a job on so many nodes; None if they are not the same on each of its
    nodes, or have another structure than alternatives (|) of which all (&) are needed."""
    text = re.sub(r"\s", "", constraint)
    if nodes == 1 and text.startswith("[") and text.endswith("]"):
        text = text[1:-1]  # all nodes have the same of several features
    text = _COUNTED.sub(lambda match: match[1] if int(match[2]) >= nodes else match[0], text)
    parts = _parts(text)
    alone = len(parts) == 1
    found = [_alternatives(part, alone) for part in parts]
    return None if None in found else frozenset(filter(None, found))


def _parts(text: str) -> list[str]:
    """What & joins outside of parentheses."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "&" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _alternatives(text: str, alone: bool) -> str | None:
    """One feature, or several in parentheses, which those that stand alone do not need."""
    if text.startswith("(") and text.endswith(")"):
        text, alone = text[1:-1], True
    if not _EITHER.fullmatch(text) or ("|" in text and not alone):
        return None
    return "|".join(dict.fromkeys(text.split("|")))
