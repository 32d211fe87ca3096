"""What the jobs of accounting request of a cluster's nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from math import ceil, inf

from scheduler import counted
from scheduler.node_request import Gpus, Request
from site_db.jobs.logs.logged_job import LoggedJob
from site_db.jobs.logs.tres import Tres
from site_db.site_file.cluster import Cluster


def partitions_of(job: LoggedJob) -> frozenset[str]:
    """The partitions to which a job was submitted."""
    return _names(job.partition)


@lru_cache(1_024)
def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, text.split(","))))


_NOT_AT_THE_SITE = (
    "{} is requested, which the cluster does not declare; ignored, unless Licenses in slurm.conf has it "
    "before the log is read"
)
_ON_NO_NODE = "gres/{} is requested, which no node has; ignored, unless Gres in slurm.conf has it"


class LoggedRequests:
    """The different requests of jobs, in order of their first.

    A job requests its own resources (ReqTRES, else AllocTRES and the older columns) on as many nodes as it
    had, in equal parts; where its CPUs cannot be divided so, they are tasks of one core, anywhere. CPUs are
    rounded up to whole cores.

    A job takes whole nodes if its partition is exclusive, or if it had all CPUs of its nodes and more than
    it requested, as after `--exclusive`. Without the names of its nodes, those of its partitions count, if
    they all have equally many CPUs. Its CPUs on each node are rounded down.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.all: list[Request] = []
        self._places: dict[object, int] = {}
        self._counts: list[int] = []
        self._undeclared: list[tuple[str, ...]] = []
        """Of each request, sentences about resources that neither the site nor a node has."""
        self._cpus_of_a_node: dict[frozenset[str], float] = {}
        """Of each of the nodes in partitions; infinite if they differ."""
        self._first: list[str] = []
        """How many jobs have each request, and the number of the first."""

    def count(self, job: LoggedJob) -> int:
        """One more job. Returns the place of its request in `all`."""
        place = self.place(job)
        self._counts[place] += 1
        return place

    def place(self, job: LoggedJob) -> int:
        """The place of a job's request in `all`."""
        tres, partitions = job.resources, partitions_of(job)
        gpus, others = tuple(sorted(tres.gpus.items())), tuple(sorted(tres.others.items()))
        of_site = tuple(sorted(tres.site_resources.items()))
        has_whole_nodes = job.processors > tres.cpus and self._has_whole_nodes(job, partitions)
        key = tres.cpus, tres.nodes, tres.memory_mib, gpus, others, partitions, of_site, has_whole_nodes
        if key not in self._places:
            self._places[key] = len(self.all)
            exclusive = has_whole_nodes or self._cluster.takes_whole_nodes(partitions)
            request = self._request(tres, partitions, exclusive)
            self.all.append(self._cluster.as_allocated(request))
            self._counts.append(0)
            self._first.append(job.number)
            self._undeclared.append(
                (
                    *(_NOT_AT_THE_SITE.format(name) for name, n in of_site if n and not self._site_has(name)),
                    *(_ON_NO_NODE.format(name) for name, n in others if n and not self._cluster.has(name)),
                )
            )
        return self._places[key]

    def undeclared(self) -> Iterator[str]:
        """A sentence for each resource that jobs request, and neither the site nor a node has."""
        found = Counter[str]()
        for sentences, n in zip(self._undeclared, self._counts, strict=True):
            found.update(dict.fromkeys(sentences, n))
        for sentence, n in found.items():
            yield f"{counted(n, 'job')}: {sentence}"

    def _site_has(self, name: str) -> bool:
        return self._cluster.site_resource(name) is not None

    def never_fit(self) -> Iterator[str]:
        """A sentence for each reason for which the site can never satisfy requests."""
        jobs: dict[str, tuple[int, str]] = {}
        for request, n, first in zip(self.all, self._counts, self._first, strict=True):
            why = self._cluster.unsatisfied(request)
            if why is not None:
                before, first_of_all = jobs.get(why, (0, first))
                jobs[why] = before + n, first_of_all
        for why, (n, first) in jobs.items():
            if n == 1:
                yield f"job {first} requests {why}; refused when it arrives"
            else:
                yield f"{n:,} jobs, the first is job {first}, request {why}; refused when they arrive"

    def _has_whole_nodes(self, job: LoggedJob, partitions: frozenset[str]) -> bool:
        """Whether a job had all CPUs of its nodes, and more than it requested, in whole cores."""
        tres = job.resources
        cores = tres.nodes * self._cluster.threads_in(partitions)
        if job.processors <= cores * ceil(tres.cpus / cores):
            return False
        nodes = self._cluster.nodes
        if job.nodes:
            return job.processors >= sum(nodes[name].cores if name in nodes else inf for name in job.nodes)
        if partitions not in self._cpus_of_a_node:
            there = {
                n.cores for n in nodes.values() if not partitions or not partitions.isdisjoint(n.partitions)
            }
            self._cpus_of_a_node[partitions] = there.pop() if len(there) == 1 else inf
        return job.processors >= tres.nodes * self._cpus_of_a_node[partitions]

    def _request(self, tres: Tres, partitions: frozenset[str], exclusive: bool) -> Request:
        threads = self._cluster.threads_in(partitions)
        nodes, memory_mib = tres.nodes, tres.memory_mib if self._cluster.has_memory else 0
        are_tasks = tres.cpus % nodes != 0 and not tres.gpus and not exclusive
        chunks = ceil(tres.cpus / threads) if are_tasks else nodes
        cores = 1 if are_tasks else ceil(tres.cpus / nodes / threads)
        if exclusive:
            # It gets all of each node, so a part more on some of them is no reason to refuse it.
            cores = max(1, tres.cpus // (nodes * threads))
        return Request(
            chunks=chunks,
            cores=threads * cores,
            memory_mib=ceil(memory_mib / chunks),
            gpus=_gpus(tres, nodes),
            others={name: ceil(n / chunks) for name, n in tres.others.items() if self._cluster.has(name)},
            most_on_node=None if are_tasks else 1,
            exclusive=exclusive,
            partitions=partitions,
            site_resources=self._of_site(tres),
        )

    def _of_site(self, tres: Tres) -> dict[str, int]:
        """What it requests of the resources that the cluster declares."""
        found = Counter[str]()
        for name, amount in tres.site_resources.items():
            if amount and (declared := self._cluster.site_resource(name)) is not None:
                found[declared] += amount
        return dict(found)


def _gpus(tres: Tres, nodes: int) -> Gpus | None:
    """On each node. GPUs of several types are of any of these."""
    if not tres.gpus:
        return None
    types = frozenset() if "" in tres.gpus else frozenset(tres.gpus)
    return Gpus(ceil(tres.n_gpus / nodes), types=types)
