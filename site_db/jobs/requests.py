"""What the jobs of accounting request of a cluster's nodes, with constraints as features of each node.

<https://slurm.schedmd.com/sbatch.html#OPT_constraint>
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil, inf

from scheduler.messages import counted
from scheduler.node_request import Gpus, Request
from site_db.jobs.logged import LoggedJob
from site_db.site_file.cluster import SiteNodes
from site_db.slurm.output import Tres, duration_s

_NAME = r"[^\s&|*,()\[\]]+"
_EITHER = re.compile(rf"{_NAME}(\|{_NAME})*")
_SWITCHES = re.compile(r"\s--switches[= ](\d{1,6})(?:@(\S+))?")
_COUNTED = re.compile(rf"({_NAME})\*(\d{{1,9}})")


@lru_cache(4_096)
def features_of(constraint: str, nodes: int) -> frozenset[str] | None:
    """The features of `Request`, of a job on this number of nodes; None if they are not the same on each of
    its nodes, or have another structure than alternatives (|) of which all (&) are needed."""
    text = re.sub(r"\s", "", constraint)
    if nodes == 1 and text.startswith("[") and text.endswith("]"):
        text = text[1:-1]  # all nodes have the same of several features
    text = _COUNTED.sub(lambda match: match[1] if int(match[2]) >= nodes else match[0], text)
    parts = _parts(text)
    alone = len(parts) == 1
    found = [_alternatives(part, alone) for part in parts]
    return None if None in found else frozenset(filter(None, found))


def _parts(text: str) -> list[str]:
    """The parts of a text that & joins outside of parentheses."""
    parts, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "&" and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _alternatives(text: str, alone: bool) -> str | None:
    """One feature, or several in parentheses, which those that stand alone do not need."""
    if text.startswith("(") and text.endswith(")"):
        text, alone = text[1:-1], True
    if not _EITHER.fullmatch(text) or ("|" in text and not alone):
        return None
    return "|".join(dict.fromkeys(text.split("|")))


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
_IN_SHARES = (
    "gres/{} is requested: shares of GPUs are not modelled; ignored, so that these jobs count without them"
)
_SHARES = ("shard", "mps")
_NO_SUCH_FEATURE = (
    "the constraint {} is requested, which no node has; ignored, unless Features in slurm.conf has it"
)
_NOT_OF_EACH_NODE = (
    "the constraint {} is requested, which is not the same for all nodes, or not a list of alternatives; "
    "not modelled, so that the job may have any node"
)
BOUND = (
    "several partitions and several nodes are requested: built-in schedulers other than slurm_backfill bind "
    "the job, when it arrives, to the partition with most room for it, but Slurm tries each at every pass"
)


class LoggedRequests:
    """The different requests of jobs, in order of their first.

    A job requests its own resources (ReqTRES, else AllocTRES and the older columns) on as many nodes as it
    had, in equal parts; where its CPUs cannot be divided so, they are tasks of one core, anywhere. CPUs are
    rounded up to whole cores.

    A job takes whole nodes if its partition is exclusive, or if it had all CPUs of its nodes and more than
    it requested, as after `--exclusive`. Without the names of its nodes, those of its partitions count, if
    they all have equally many CPUs. Its CPUs on each node are rounded down.

    Its nodes have the features of its constraint (`constraints`), if some nodes of the cluster have them.
    """

    def __init__(self, cluster: SiteNodes) -> None:
        self._cluster = cluster
        self.all: list[Request] = []
        self._places: dict[object, int] = {}
        self._counts: list[int] = []
        self._ignored: list[tuple[str, ...]] = []
        """Sentences about what is ignored of each request."""
        self._features = frozenset[str]().union(*(node.features for node in cluster.nodes.values()))
        self._cpus_of_a_node: dict[frozenset[str], float] = {}
        """The CPUs of each of the nodes in partitions; infinite if they differ."""
        self._first: list[str] = []
        """How many jobs have each request, and the number of the first."""

    def count(self, job: LoggedJob) -> int:
        """Count one more job. Returns the place of its request in `all`."""
        place = self.place(job)
        self._counts[place] += 1
        self._first[place] = self._first[place] or job.number
        return place

    def place(self, job: LoggedJob) -> int:
        """The place of a job's request in `all`."""
        tres, partitions = job.resources, partitions_of(job)
        gpus, others = tuple(sorted(tres.gpus.items())), tuple(sorted(tres.others.items()))
        of_site = tuple(sorted(tres.site_resources.items()))
        has_whole_nodes = job.processors > tres.cpus and self._has_whole_nodes(job, partitions)
        size = tres.cpus, tres.nodes, tres.memory_mib, gpus, others, of_site
        most, wait_s = switches = self._switches(job)
        key = size, partitions, job.constraints, has_whole_nodes, switches
        if key not in self._places:
            exclusive = has_whole_nodes or self._cluster.takes_whole_nodes(partitions)
            features, unknown = self._known_features(job)
            request = self._request(tres, partitions, exclusive)
            request = replace(request, features=features, switches=most, switch_wait_s=wait_s)
            request = self._cluster.as_allocated(request)
            self.add(key, request, *self._undeclared(tres), *unknown, *self._bound(request))
        return self._places[key]

    def add(self, key: object, request: Request, *ignored: str) -> None:
        """Add a request by the key of its place, with sentences on what is ignored."""
        self._places[key] = len(self.all)
        self.all.append(request)
        self._counts.append(0)
        self._first.append("")
        self._ignored.append(ignored)

    def cpus(self, job: LoggedJob) -> int:
        """The CPUs that a job keeps from others, in whole ones."""
        return ceil(self._cluster.held(self.all[self.place(job)]).cpus)

    def ignored(self) -> Iterator[str]:
        """A sentence for each resource or feature that jobs request, and that neither the site nor a node has
        or the model does not know."""
        found = Counter[str]()
        for sentences, n in zip(self._ignored, self._counts, strict=True):
            found.update(dict.fromkeys(sentences, n))
        for sentence, n in found.items():
            yield f"{counted(n, 'job')}: {sentence}"

    def _undeclared(self, tres: Tres) -> Iterator[str]:
        for name, n in sorted(tres.site_resources.items()):
            if n and self._cluster.site_resource(name) is None:
                yield _NOT_AT_THE_SITE.format(name)
        for name, n in sorted(tres.others.items()):
            if n and not self._cluster.has(name):
                yield (_IN_SHARES if name.partition(":")[0] in _SHARES else _ON_NO_NODE).format(name)

    def _known_features(self, job: LoggedJob) -> tuple[frozenset[str], list[str]]:
        """The features that the job requests, and sentences about those that are ignored."""
        features = features_of(job.constraints, job.resources.nodes) if job.constraints else frozenset()
        if features is None:
            return frozenset(), [_NOT_OF_EACH_NODE.format(job.constraints)]
        unknown = {each for each in features if self._features.isdisjoint(each.split("|"))}
        return features - unknown, [_NO_SUCH_FEATURE.format(each) for each in sorted(unknown)]

    def _switches(self, job: LoggedJob) -> tuple[int, float]:
        """The most leaf switches that a job requests, and how long it waits for so few; none without any."""
        topology = self._cluster.topology
        if topology is None or topology.block_sizes or not (said := _SWITCHES.search(job.submit_line)):
            return 0, 0.0
        wait_s = duration_s(said[2] or "", 60)
        return int(said[1]), topology.max_wait_s if wait_s is None else min(topology.max_wait_s, wait_s)

    def _bound(self, request: Request) -> Iterator[str]:
        """Of several partitions, the one that has the nodes of all others is as good as any of them."""
        if request.chunks > 1 and len(request.partitions) > 1:
            of_each = [{*self._cluster.by_partition.get(name, ())} for name in request.partitions]
            if max(of_each, key=len) != set().union(*of_each):
                yield BOUND

    def never_fit(self) -> Iterator[str]:
        """A sentence for each reason for which the site can never satisfy requests."""
        jobs: dict[str, tuple[int, str]] = {}
        for request, n, first in zip(self.all, self._counts, self._first, strict=True):
            why = self._cluster.unsatisfied(request)
            if why is not None and n:
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
        """The resources that it requests among those that the cluster declares."""
        found = Counter[str]()
        for name, amount in tres.site_resources.items():
            if amount and (declared := self._cluster.site_resource(name)) is not None:
                found[declared] += amount
        return dict(found)


def _gpus(tres: Tres, nodes: int) -> Gpus | None:
    """The GPUs on each node. Those of several types are of any of these."""
    if not tres.gpus:
        return None
    types = frozenset() if "" in tres.gpus else frozenset(tres.gpus)
    return Gpus(ceil(tres.n_gpus / nodes), types=types)
