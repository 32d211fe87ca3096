"""Whether schedulers under test that are not built in run apart from this process."""

_isolates = False


def isolate_schedulers() -> None:
    """From now on, they run in processes of their own."""
    global _isolates
    _isolates = True


def isolates_schedulers() -> bool:
    """Whether they do. The commands and all workers say so; Python programs trust what they define."""
    return _isolates
