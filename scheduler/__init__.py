"""The scheduler a site would run: values, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real.
"""

from collections.abc import Sequence

MOST_SHOWN = 10


class UserError(ValueError):
    """An error that the user can correct. The message is one sentence for the user."""


def counted(n: int, noun: str) -> str:
    """A count with its noun: "1 cluster", "1,200 job classes"."""
    return f"{n:,} {plural(n, noun)}"


def plural(n: int, noun: str) -> str:
    """The noun after that number: "class" after 1, otherwise "classes"."""
    if n == 1:
        return noun
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def shown(names: Sequence[str]) -> str:
    """The names, of which there may be thousands, as far as a sentence has room: "a, b, ..."."""
    return ", ".join([*names[:MOST_SHOWN], *(["..."] if len(names) > MOST_SHOWN else [])])
