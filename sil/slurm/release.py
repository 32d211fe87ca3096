"""A release of Slurm, and what is known here of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from sil.slurm.protocol.packing.versions import RELEASES, spoken_to

TESTED = ("22.05.8", "24.11.5", "26.05.5")
"""The releases with which all tests pass."""


class Release(NamedTuple):
    """Compares by its numbers: `release >= (24, 11)`."""

    major: int
    minor: int
    name: str
    """As the daemons print it, like 24.11.5."""

    @classmethod
    def of(cls, text: str) -> Release | None:
        """The first release that a text names, such as the answer to `slurmctld -V`; None if it has none."""
        found = re.search(r"\b(\d+)\.(\d+)(?:\.\d+\S*)?", text)
        return None if found is None else cls(int(found[1]), int(found[2]), found[0])

    def is_since(self, series: str) -> bool:
        """Whether it is of this series, like 24.11, or a later one; "" is the oldest."""
        return not series or self >= tuple(map(int, series.split(".")))

    @property
    def series(self) -> str:
        """The release with all of its corrections, like 24.11."""
        return f"{self.major:02}.{self.minor:02}"

    @property
    def protocol(self) -> int:
        """The newest version of the protocol that both it and the testbed speak. Raises
        UnsupportedVersion."""
        return spoken_to(self.series)

    @property
    def not_tested(self) -> str | None:
        """A sentence if it is none of the TESTED. Raises UnsupportedVersion."""
        if self.name in TESTED:
            return None
        return (
            f"Slurm {self.name} was not tested with this testbed, only {', '.join(TESTED)}: it is driven "
            f"with the messages of {RELEASES[self.protocol]}"
        )
