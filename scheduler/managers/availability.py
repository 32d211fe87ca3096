"""Which machines and clusters are available, according to monitors and failed orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from scheduler.model import InterconnectReading, MachineReading, Site


class LatestReadings:
    """The time of the latest reading of each machine and interconnect, since readings may arrive out of
    order."""

    def __init__(self) -> None:
        self._measured_s: dict[int | str, float] = {}

    def accept(self, subject: int | str, measured_s: float) -> bool:
        """Whether a reading is not older than those accepted before."""
        is_current = measured_s >= self._measured_s.get(subject, -np.inf)
        if is_current:
            self._measured_s[subject] = measured_s
        return is_current


class Availability:
    """Last reported state of machines, interconnects and clusters; initially all are up.

    A cluster is available while its policy's share of members and one of its interconnects are up. A reading
    costs only the clusters that it concerns.
    """

    def __init__(self, site: Site) -> None:
        self.up = np.ones(site.n_machines, dtype=bool)
        self._site = site
        self._latest = LatestReadings()
        self._interconnects_down: set[str] = set()
        self._members = list(site.members)

    def read(self, readings: Sequence[MachineReading | InterconnectReading]) -> list[int]:
        """Take in `readings`. Returns the machines whose availability changed, in ascending order.

        Ignores a reading older than the latest one of the same machine or interconnect.
        """
        changed: set[int] = set()
        for reading in readings:
            subject = reading.machine if isinstance(reading, MachineReading) else reading.name
            if self._latest.accept(subject, reading.measured_s):
                changed.update(self._set(subject, reading.up))
        return sorted(changed)

    def members(self) -> tuple[tuple[int, ...], ...]:
        """Available machines of each cluster; none if the cluster is not available."""
        return tuple(self._members)

    def has(self, machines: Iterable[int], resource: int) -> bool:
        """Whether a run on `machines`, planned for resource j, could still start."""
        c = resource - self._site.n_machines
        usable = set(self._members[c]) if c >= 0 else None
        return all(self.up[j] and (usable is None or j in usable) for j in machines)

    def _set(self, subject: int | str, up: bool) -> set[int]:
        if isinstance(subject, str):
            if up is (subject not in self._interconnects_down):
                return set()
            (self._interconnects_down.discard if up else self._interconnects_down.add)(subject)
            concerned = [c for c, k in enumerate(self._site.clusters) if subject in k.interconnects]
        else:
            if bool(self.up[subject]) is up:
                return set()
            self.up[subject] = up
            concerned = list(self._site.clusters_of_machine[subject])
        for c in concerned:
            cluster, members = self._site.clusters[c], self._site.members[c]
            usable = tuple(j for j in members if self.up[j])
            is_cut_off = cluster.interconnects and self._interconnects_down.issuperset(cluster.interconnects)
            # By division: 7 of 25 is 0.28 as written in a file, while 0.28 * 25 is a little more than 7.
            is_enough = usable and len(usable) / len(members) >= cluster.least_share
            self._members[c] = usable if is_enough and not is_cut_off else ()
        machines = {j for c in concerned for j in self._site.members[c]}
        return machines if isinstance(subject, str) else machines | {subject}
