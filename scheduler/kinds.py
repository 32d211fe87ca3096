"""The kinds of scheduling problems, and the error for a scheduler of another kind than its problem."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """What a scheduler decides. The values are the names that options and plug-ins use.

    `Kind("time_shared")`, `Kind("time-shared")` and `Kind("shared_nodes")` are aliases of TIME_SHARED.
    """

    MAPPING = "mapping"
    TIME_SHARED = "shared-nodes"
    FREE_NODES = "free-nodes"

    @classmethod
    def _missing_(cls, value: object) -> Kind | None:
        name = str(value).lower().replace("_", "-")
        if name == "time-shared":
            return cls.TIME_SHARED
        return next((kind for kind in cls if kind.value == name), None)

    @property
    def does(self) -> str:
        """The verb phrase for a scheduler of this kind."""
        return {
            Kind.MAPPING: "maps jobs to machines",
            Kind.TIME_SHARED: "starts jobs on time-shared nodes",
            Kind.FREE_NODES: "starts jobs on free nodes",
        }[self]

    @property
    def context(self) -> str:
        """Where a scheduler of this kind is needed."""
        return {
            Kind.MAPPING: "an experiment on machines",
            Kind.TIME_SHARED: "an experiment on time-shared nodes",
            Kind.FREE_NODES: "replaying a log",
        }[self]


class WrongKind(AttributeError):
    """A scheduler reads an attribute of a problem of another kind than it was given."""

    def __init__(self, attribute: str, scheduler: Kind, problem: Kind) -> None:
        super().__init__(
            f"this scheduler {scheduler.does} (it reads problem.{attribute}), "
            f"but {problem.context} needs one that {problem.does}"
        )
