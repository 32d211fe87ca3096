"""What a job requests of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of one chunk: `count` whole ones, or a share of one; of any of `types`, or of any type."""

    count: int = 1
    share: float = 1.0
    types: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Request:
    """`chunks` equal chunks, each on one node, at most `most_on_node` of them on the same node.

    n nodes with so much on each are n chunks with `most_on_node=1`; n tasks are n chunks. `others` are the
    site's own resources by name. An exclusive job takes whole nodes, on which nothing else runs.
    """

    chunks: int = 1
    cores: float = 1.0
    memory_mib: int = 0
    gpus: Gpus | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    most_on_node: int | None = 1
    exclusive: bool = False
    features: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    """Any of these; any node if empty."""

    def __post_init__(self) -> None:
        if not (self.cores or self.memory_mib or self.gpus or any(self.others.values())):
            raise ValueError("a chunk requests nothing; expected cores, memory or GPUs")
