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

    def __str__(self) -> str:
        types = f"{'/'.join(sorted(self.types))} " if self.types else ""
        if self.share < 1.0:
            return f"{self.share:g} of a {types}GPU"
        return f"{self.count} {types}GPU{'s' if self.count > 1 else ''}"


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

    def __str__(self) -> str:
        """For example "4 nodes with 8 cores, 1,024 MiB, 2 A100 GPUs each"."""
        each = [f"{self.cores:g} core{'s' if self.cores > 1 else ''}"] if self.cores else []
        each += [f"{self.memory_mib:,} MiB"] if self.memory_mib else []
        each += [str(self.gpus)] if self.gpus else []
        each += [f"{amount:,} {name}" for name, amount in sorted(self.others.items()) if amount]
        noun = "node" if self.most_on_node == 1 else "task"
        whole = " exclusively" if self.exclusive else ""
        if self.chunks == 1:
            return f"1 {noun} with {', '.join(each)}{whole}"
        return f"{self.chunks} {noun}s with {', '.join(each)} each{whole}"
