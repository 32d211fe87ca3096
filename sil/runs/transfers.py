"""How long the data of jobs take from one of several clusters to another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf

from scheduler.messages import counted
from scheduler.model import Job
from sil.runs.scenario import Scenario
from sil.settings.experiment_file import TransfersTable
from site_db.site_file.tables import DataTable


class Transfers:
    """The data of jobs, and the interconnects of clusters: those of their nodes, and of the clusters of their
    sites that these form."""

    def __init__(self, table: TransfersTable, clusters: Mapping[str, Scenario]) -> None:
        self._table = table
        self._data, self._interconnects = {}, {}
        for name, cluster in clusters.items():
            file, shared = cluster.in_use.file, cluster.resources.time_shared_cluster
            self._data[name] = {of.name: of.data for of in file.job_classes if of.data} | table.data
            there = {x for each in file.clusters if shared in (None, each.name) for x in each.interconnects}
            there.update(x for each in file.machines if shared is None for x in each.interconnects)
            self._interconnects[name] = {x.name: x for x in file.interconnects if x.name in there}

    def seconds(self, job: Job, submitted_at: str, to: str) -> tuple[float, float]:
        """Until the data of a job are at a cluster, and from there its output where they were."""
        data = self._data[submitted_at].get(job.job_class, DataTable())
        at = data.at if data.at in self._data else submitted_at
        output_s = self._moved_s(data.output_mb, to, at) if data.output_mb else 0.0
        return self._moved_s(data.input_mb, at, to), output_s

    def _moved_s(self, megabytes: float, origin: str, to: str) -> float:
        """The seconds that data take over the best of the interconnects that two clusters have in common."""
        if origin == to:
            return 0.0
        table, megabits = self._table, 8.0 * megabytes
        ends, moved_s = [self._interconnects[name] for name in (origin, to)], inf if megabits else 0.0
        common = set() if table.bandwidth_mbit_per_s else ends[0].keys() & ends[1].keys()
        for name in common:
            slower = min(end[name].bandwidth_mbit_per_s for end in ends)
            moved_s = min(moved_s, megabits / slower + max(end[name].latency_us for end in ends) / 1e6)
        if moved_s == inf:
            moved_s = megabits / (table.bandwidth_mbit_per_s or 1_000.0)
        return table.seconds.get(origin, {}).get(to, 0.0) + moved_s

    def notes(self) -> Iterator[str]:
        """Sentences on what is moved, and on data that are at no cluster here."""
        found = {name: data for of in self._data.values() for name, data in of.items()}
        some = {name: of for name, of in found.items() if of.input_mb or of.output_mb}
        moved = [f"{name} {of.input_mb:,g} MB in, {of.output_mb:,g} MB out" for name, of in some.items()]
        moved = [
            f"{text}, at {of.at}" if of.at else text for text, of in zip(moved, some.values(), strict=True)
        ]
        if moved and len(self._data) > 1:
            ways_s = [self._moved_s(1e3, a, b) for a in self._data for b in self._data if a != b]
            takes = " to ".join(dict.fromkeys(f"{of(ways_s):,.4g}" for of in (min, max)))
            yield f"Data of a job: {'; '.join(moved)}; 1,000 MB take {takes} s from one cluster to another"
        far = {name: data.at for name, data in found.items() if data.at and data.at not in self._data}
        if far:
            first = f"'{next(iter(far))}', at '{next(iter(far.values()))}'"
            where = f"The data of {counted(len(far), 'job class')} are at no cluster here (first: {first})"
            yield f"{where}; they count as being where jobs are submitted"
