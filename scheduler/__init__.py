"""The scheduler a site would run: values, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real.
"""


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
