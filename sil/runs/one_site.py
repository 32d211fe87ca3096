"""Several clusters as one site: the nodes of all under one scheduler, with the jobs that arrive at each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scheduler import UserError
from scheduler.model import Job
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.several_clusters import SeveralClusters
from sil.runs.under_test import Find
from sil.settings.experiment_file import TransfersTable, WorkloadTable
from sil.site.site_in_use import SiteSource
from site_db.site_file.tables import SiteFile

LEFT_OUT = {"description", "parallel_s", "parallel_commands", "preferred", "in_isolation"}
"""What is said of job classes and does not matter on nodes of partitions."""
OF_ALL = ("machine_classes", "partitions", "site_resources", "job_classes")
ALIKE = ("queues", "users", "only_listed_users")
"""What has to be the same at all sites."""


@dataclass(frozen=True)
class OneSite(NodesScenario):
    """The nodes of several clusters, and what is submitted at each of them `apart`."""

    apart: SeveralClusters | None = None

    @classmethod
    def joined(cls, apart: SeveralClusters, scheduler: str, find: Find) -> OneSite:
        """Raises UserError for clusters that cannot be one site, and DoesNotFit for the scheduler."""
        file = one_file({name: member.in_use.file for name, member in apart.members.items()})
        if known := [name for name, member in apart.members.items() if member.in_use.statistics]:
            raise _cannot_be_one(f"the site of '{known[0]}' has a history of runs; name its site file")
        alone = {"clusters": (), "transfers": TransfersTable(), "schedulers": (scheduler,), "site": file.name}
        experiment = apart.experiment.model_copy(update=alone)
        with TemporaryDirectory() as folder:
            source = SiteSource(experiment, Path(folder), None, file=file)
            in_use = source.snapshot(Path(folder) / "site.db")
        return replace(cls.of(experiment, in_use, find), apart=apart)

    @property
    def workloads(self) -> Sequence[WorkloadTable]:
        assert self.apart is not None
        return [member.experiment.drawn for member in self.apart.members.values()]

    def jobs(self) -> list[Job]:
        assert self.apart is not None
        return replace(self.apart, replication=self.replication).arriving()[0]


def one_file(sites: Mapping[str, SiteFile]) -> SiteFile:
    """The nodes of the sites of several clusters as one site; partitions of one name become one, and a node
    is called like its cluster and itself. Raises UserError for what one name cannot mean at all of them."""
    machines, tables = list[dict[str, Any]](), {kind: dict[str, dict[str, Any]]() for kind in OF_ALL}
    for cluster, file in sites.items():
        if not file.partitions:
            raise _cannot_be_one(f"'{cluster}' has no nodes of partitions")
        if file.topology is not None:
            raise _cannot_be_one(
                f"'{cluster}' has switches or blocks, which would connect only its own nodes"
            )
        for group in file.machines:
            here = {"names": [f"{cluster}-{name}" for name in group.names], "interconnects": [], "switch": ""}
            machines.append(group.model_dump() | here)
        for kind in OF_ALL:
            for each in getattr(file, kind):
                table = each.model_dump(exclude=LEFT_OUT)
                if kind == "partitions":
                    table["nodes"] = [f"{cluster}-{name}" for name in each.nodes]
                before = tables[kind].setdefault(each.name, table)
                if before is not table and not _join(before, table):
                    what = f"'{each.name}' differs in {kind} of their sites"
                    raise _cannot_be_one(f"{what}; rename one of them, or describe them alike")
    first, *others = sites.values()
    for key in ALIKE:
        if any(getattr(other, key) != getattr(first, key) for other in others):
            raise _cannot_be_one(f"their sites differ in {key}; describe them alike")
    alike = first.model_dump(include={*ALIKE})
    of_all = {kind: [*found.values()] for kind, found in tables.items()}
    return SiteFile.model_validate({"name": "-".join(sites), "machines": machines, **of_all, **alike})


def _join(table: dict[str, Any], other: Mapping[str, Any]) -> bool:
    """Add the nodes, amounts and times of another table of the same name. Returns whether all else agrees."""
    for key in table.keys() & {"nodes", "amount"}:
        table[key] += other[key]
    times = other.get("sequential_s", {})
    agrees = all(table["sequential_s"].setdefault(name, run_s) == run_s for name, run_s in times.items())
    summed = {"nodes", "amount", "sequential_s"}
    return agrees and all(table[key] == value for key, value in other.items() if key not in summed)


def _cannot_be_one(why: str) -> UserError:
    return UserError(f"the clusters cannot be one site: {why}")
