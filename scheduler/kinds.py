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

    SHARED_NODES = "shared-nodes"

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
