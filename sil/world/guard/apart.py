"""Whether schedulers under test that are not built in run apart from this process, and where their modules
are."""

from __future__ import annotations

from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec

_isolates = False
_folder: str | None = None
_is_apart = False


def be_apart() -> None:
    """This is the process of a scheduler: all that is raised here is its own, Ctrl-C included."""
    global _is_apart
    _is_apart = True


def is_apart() -> bool:
    """Whether this is the process of a scheduler."""
    return _is_apart


def isolate_schedulers(folder: str | None = None) -> None:
    """From now on, they run in processes of their own. Only these look for modules in `folder`, too: it may
    have files with the names of modules for which libraries look."""
    global _isolates, _folder
    _isolates, _folder = True, folder


def isolates_schedulers() -> bool:
    """Whether they do. The commands and all workers say so; Python programs trust what they define."""
    return _isolates


def modules_folder() -> str | None:
    """The folder that the processes of schedulers search in addition to the module path."""
    return _folder


def module_spec(name: str) -> ModuleSpec | None:
    """How the process of a scheduler finds a module without a dot in its name. Imports nothing."""
    found = find_spec(name)
    if found is None and _folder is not None:
        found = PathFinder.find_spec(name, [_folder])
    return found
