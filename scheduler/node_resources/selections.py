"""Node selections by name. Their classes are loaded when needed, since they are compiled code."""

from __future__ import annotations

from difflib import get_close_matches
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from scheduler.naming import Misnamed

if TYPE_CHECKING:
    from scheduler.node_resources.selection import NodeSelection

_MODULE = "scheduler.node_resources.selection"

SELECTIONS = {
    "first_fit": f"{_MODULE}:FirstFit",
    "best_fit": f"{_MODULE}:BestFit",
    "worst_fit": f"{_MODULE}:WorstFit",
    "dot_product": f"{_MODULE}:DotProduct",
    "gpu_packing": f"{_MODULE}:GpuPacking",
    "gpu_clustering": f"{_MODULE}:GpuClustering",
    "fgd": "scheduler.node_resources.fragmentation_descent:FragmentationDescent",
}


def checked_name(name: str) -> str:
    """The name itself, if it is one of SELECTIONS, or "module:Class" of a usable class. Raises Misnamed."""
    if ":" in name:
        selection_by_name(name)
    elif name not in SELECTIONS:
        near = get_close_matches(name, SELECTIONS, 1)
        meant = f"; did you mean '{near[0]}'?" if near else ""
        raise Misnamed(
            f"'{name}' is no node selection; expected one of {', '.join(SELECTIONS)}, or module:Class{meant}"
        )
    return name


def selection_by_name(name: str) -> NodeSelection:
    """A new selection: one of SELECTIONS, or of "module:Class". Raises Misnamed."""
    from scheduler.node_resources.selection import NodeSelection

    target = SELECTIONS.get(name, name)
    try:
        made: Any = resolve_name(target)()
    except Exception as error:
        raise Misnamed(
            f"node selection '{name}' cannot be loaded: {type(error).__name__}: {error}; expected "
            f"module:Class, whose constructor needs no arguments"
        ) from error
    if not isinstance(made, NodeSelection):
        raise Misnamed(f"node selection '{name}' is no subclass of {_MODULE}.NodeSelection")
    return made
