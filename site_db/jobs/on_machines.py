"""The jobs of a log at a site of machines: the machines and clusters that they ran on are added.

A job class is (user, program, processors). A run on one node is a run on that machine. A run on several nodes
is a run on the smallest cluster that has them all; without one, on a cluster named for the partition, to
which these nodes are added. A run without nodes is one of the machine class named for the partition. New
nodes become machines of the class named for their partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from site_db import schema
from site_db.jobs.log_import import NO_PARTITION, LogBuilder, record_of
from site_db.jobs.logs.logged_job import LoggedJob
from site_db.jobs.records import JobRecord
from site_db.jobs.writer import BadRecord, SiteNames
from site_db.rows import insert_rows


class JobsOnMachines(LogBuilder):
    def __init__(self, session: Session, site_id: int, names: SiteNames) -> None:
        super().__init__(session, site_id, names)
        self._found: dict[tuple[str, tuple[str, ...]], str] = {}

    def class_name(self, job: LoggedJob) -> str:
        return f"{job.user}/{job.program}/{job.processors}"

    def records(self, jobs: Sequence[LoggedJob]) -> list[JobRecord]:
        self._add_job_classes(dict.fromkeys(map(self.class_name, jobs)))
        places = [self._place(job) for job in jobs]
        self._flush()
        return [self._record(job, place) for job, place in zip(jobs, places, strict=True)]

    def _record(self, job: LoggedJob, place: str) -> JobRecord:
        name, members = self.class_name(job), len(job.nodes) or 1
        resource, machine_class = (place, None) if job.nodes else (None, place)
        return record_of(job, name, job.partition, resource, machine_class, members)

    def _place(self, job: LoggedJob) -> str:
        """The name of the machine, cluster or (for a job without nodes) machine class that a job ran on.

        It is added if it is new, and the job's class is allowed there. Raises BadRecord for a node with the
        name of a cluster.
        """
        partition = job.partition or NO_PARTITION
        key = (partition, job.nodes)
        if key not in self._found:
            self._found[key] = self._resource(partition, job.nodes)
        resource = self._found[key]
        machine_class_id = cluster_id = None
        if len(job.nodes) > 1:
            cluster_id = self._names.clusters[resource]
        elif job.nodes:
            _, machine_class_id = self._names.machines[resource]
        else:
            machine_class_id = self._names.machine_classes[resource]
        self._allow(self.class_name(job), machine_class_id, cluster_id)
        return resource

    def _resource(self, partition: str, nodes: tuple[str, ...]) -> str:
        if not nodes:
            self._put(schema.MachineClassRow, self._names.machine_classes, partition)
            return partition
        machine_ids = {node: self._put_machine(node, partition) for node in nodes}
        if len(nodes) == 1:
            return nodes[0]
        members = self._names.members
        fitting = [name for name, ids in members.items() if ids.issuperset(machine_ids.values())]
        if fitting:
            return min(fitting, key=lambda name: (len(members[name]), name))
        # A cluster cannot have the name of a machine.
        name = f"partition {partition}" if partition in self._names.machines else partition
        cluster_id = self._put(schema.ClusterRow, self._names.clusters, name)
        of_cluster = members.setdefault(name, set())
        new = [id for id in machine_ids.values() if id not in of_cluster]
        rows = [{"cluster_id": cluster_id, "machine_id": id} for id in new]
        insert_rows(self._session, schema.ClusterMemberRow, rows)
        of_cluster.update(new)
        return name

    def _put_machine(self, name: str, partition: str) -> int:
        machines = self._names.machines
        if name in self._names.clusters:
            raise BadRecord(f"the node '{name}' has the name of a cluster; give that another one first")
        if name not in machines:
            class_id = self._put(schema.MachineClassRow, self._names.machine_classes, partition)
            machines[name] = (
                self._insert(schema.MachineRow(machine_class_id=class_id), name, len(machines)),
                class_id,
            )
        return machines[name][0]

    def _put(self, row: type[schema.OfSite], known: dict[str, int], name: str) -> int:
        """The id of the row of that name, which is added if there is none."""
        if name not in known:
            known[name] = self._insert(row(), name, len(known))
        return known[name]

    def _insert(self, row: schema.OfSite, name: str, position: int) -> int:
        row.site_id, row.name, row.position = self._site_id, name, position
        self._session.add(row)
        self._session.flush()
        return row.id
