"""Several clusters as one site: the nodes of all under one scheduler, with the jobs that arrive at each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from scheduler import UserError
from scheduler.model import Job
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.several_clusters import SeveralClusters
from sil.runs.under_test import Find
from sil.settings.experiment_file import TransfersTable, WorkloadTable
from sil.site.site_in_use import SiteSource
from site_db import store
from site_db.site_file.importing import put_site
from site_db.site_file.tables import (
    JobClassTable,
    MachineClassTable,
    PartitionTable,
    SiteFile,
    SiteResourceTable,
)

Named = TypeVar("Named", MachineClassTable, JobClassTable, PartitionTable)


@dataclass(frozen=True)
class OneSite(NodesScenario):
    """The nodes of several clusters, and what is submitted at each of them `apart`."""

    apart: SeveralClusters | None = None

    @classmethod
    def joined(cls, apart: SeveralClusters, scheduler: str, find: Find) -> OneSite:
        """Raises UserError for clusters that cannot be one site, and DoesNotFit for the scheduler."""
        members = apart.members.items()
        if known := [name for name, member in members if member.in_use.statistics]:
            why = f"the site of '{known[0]}' has a history of run times, which the others have not"
            raise UserError(f"the clusters cannot be one site: {why}; name site files")
        file = one_file({name: member.in_use.file for name, member in members})
        alone = {"clusters": (), "transfers": TransfersTable(), "schedulers": (scheduler,), "site": file.name}
        experiment = apart.experiment.model_copy(update=alone)
        with TemporaryDirectory() as folder:
            database = store.replace(Path(folder) / "one.db")
            with store.changing(database) as session:
                put_site(session, file)
            database.dispose()
            address = store.parse_address(f"{folder}/one.db#{file.name}")
            in_use = SiteSource(experiment, Path(folder), address).snapshot(Path(folder) / "site.db")
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
    machines, partitions, resources = [], list[PartitionTable](), Counter[str]()
    for cluster, file in sites.items():
        if not file.partitions:
            raise UserError(
                f"the cluster '{cluster}' cannot be part of one site: it has no nodes of partitions"
            )
        for group in file.machines:
            names = _of(cluster, group.names)
            machines.append(group.model_copy(update={"names": names, "interconnects": (), "switch": ""}))
        for table in file.partitions:
            partitions.append(table.model_copy(update={"nodes": _of(cluster, table.nodes)}))
        resources.update({table.name: table.amount for table in file.site_resources})
    first = next(iter(sites.values()))
    classes = [table for file in sites.values() for table in file.machine_classes]
    jobs = [_on_nodes(table) for file in sites.values() for table in file.job_classes]
    return SiteFile(
        name="-".join(sites),
        machines=tuple(machines),
        machine_classes=_merged("machine class", classes),
        partitions=_merged("partition", partitions, "nodes"),
        site_resources=tuple(SiteResourceTable(name=name, amount=n) for name, n in resources.items()),
        job_classes=_merged("job class", jobs, "sequential_s"),
        queues=first.queues,
        users=first.users,
        only_listed_users=first.only_listed_users,
    )


def _of(cluster: str, nodes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{cluster}-{node}" for node in nodes)


def _on_nodes(table: JobClassTable) -> JobClassTable:
    """The class without what is said of clusters, and of nodes that jobs share."""
    nothing: dict[str, object] = {
        "parallel_s": {},
        "parallel_commands": {},
        "preferred": (),
        "in_isolation": (),
    }
    return table.model_copy(update={**nothing, "description": ""})


def _merged(what: str, tables: Iterable[Named], key: str = "") -> tuple[Named, ...]:
    """The tables of one name as one, with all that is listed under `key`; they say the same otherwise."""
    found: dict[str, Named] = {}
    for table in tables:
        before = found.setdefault(table.name, table)
        if before is table:
            continue
        both, differ = dict[str, Any](), False
        if key:
            one, other = getattr(before, key), getattr(table, key)
            both = {key: {**one, **other} if isinstance(one, dict) else one + other}
            differ = isinstance(one, dict) and both[key] != {**other, **one}
        found[table.name] = before.model_copy(update=both)
        if differ or found[table.name] != table.model_copy(update=both):
            raise UserError(
                f"the clusters cannot be one site: the {what} '{table.name}' differs between their sites; "
                f"give the two different names, or describe them alike"
            )
    return tuple(found.values())
