"""Whether schedulers under test that are not built in run apart from this process."""

_isolates = False


_is_apart = False


def be_apart() -> None:
    """This is the process of a scheduler: all that is raised here is its own, Ctrl-C included."""
    global _is_apart
    _is_apart = True


def is_apart() -> bool:
    """Whether this is the process of a scheduler."""
    return _is_apart


def isolate_schedulers() -> None:
    """From now on, they run in processes of their own."""
    global _isolates
    _isolates = True


def isolates_schedulers() -> bool:
    """Whether they do. The commands and all workers say so; Python programs trust what they define."""
    return _isolates
