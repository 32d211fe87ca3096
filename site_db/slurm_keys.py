"""The keys of nodes and partitions in `slurm.conf`: which are read, and which are ignored, and why.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from site_db.files.given import InvalidFile

_READ = {
    "nodename": """NodeName Boards CoreSpecCount CoresPerSocket CPUs CpuSpecList Feature Features Gres
        MemSpecLimit Procs RealMemory Reason Sockets SocketsPerBoard State ThreadsPerCore""",
    "partitionname": """PartitionName DefaultTime MaxNodes MaxTime Nodes OverSubscribe Shared State""",
    "downnodes": "DownNodes Reason State",
}
_WITHOUT_EFFECT = {
    "nodename": """BcastAddr CpuBind NodeAddr NodeHostname Parameters Port RestrictedCoresPerGPU TmpDisk
        Topology Weight""",
    "partitionname": """Alternate CpuBind Default DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
        DisableRootJobs GraceTime Hidden JobDefaults LLN OverTimeLimit PowerDownOnIdle QOS ResumeTimeout
        RootOnly SelectTypeParameters SuspendTime SuspendTimeout Topology TRESBillingWeights""",
    "downnodes": "",
}
"""Valid, and of no use to the model."""
_WHO = "all users may use a partition, unless a queue ([[queues]]) has users"
_ON_A_NODE = "partitions do not limit what a job has of a node"
_ORDER = "the order of service is that of [[queues]]"
NOT_MODELLED = {
    "AllocNodes": "jobs are submitted from anywhere",
    **dict.fromkeys(("AllowAccounts", "AllowGroups", "AllowQos", "DenyAccounts", "DenyQos"), _WHO),
    **dict.fromkeys(("MaxCPUsPerNode", "MaxCPUsPerSocket", "MaxMemPerCPU", "MaxMemPerNode"), _ON_A_NODE),
    "ExclusiveTopo": "jobs have whole nodes at most",
    "ExclusiveUser": "jobs of several users share nodes",
    "MinNodes": "partitions have no least number of nodes",
    "PreemptMode": "what displaces what is said by [[queues]]",
    **dict.fromkeys(("Priority", "PriorityJobFactor", "PriorityTier"), _ORDER),
    "ReqResv": "there are no reservations of nodes",
}
"""Why keys of partitions that decide where and when jobs may run are ignored."""
_NO_EFFECT = ("", "all", "0", "1", "no", "none", "off", "unlimited", "infinite", "(null)")
"""Values that state nothing."""
_SIMILAR = 0.8


def _by_small_letters(kind: str, *others: str) -> dict[str, str]:
    names = [name for text in (_READ[kind], _WITHOUT_EFFECT[kind], *others) for name in text.split()]
    return {name.lower(): name for name in names}


_KNOWN = {kind: _by_small_letters(kind, *(NOT_MODELLED if kind == "partitionname" else ())) for kind in _READ}
_IGNORED = {kind: {name.lower() for name in _WITHOUT_EFFECT[kind].split()} for kind in _READ}


@dataclass
class IgnoredKeys:
    """What the lines of a file say that the model leaves out."""

    sentences: list[str] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, values: Mapping[str, str], where: str) -> None:
        """A line of NodeName, PartitionName or DownNodes (`kind`, in small letters, like the keys).

        Raises InvalidFile for a key that Slurm does not know and that is similar to one that it knows; others
        may be of a newer Slurm.
        """
        known = _KNOWN[kind]
        what = f"{known[kind]}={values[kind]}"
        for key, value in values.items():
            name = known.get(key)
            follows, is_pair, _ = value.partition("=")
            if is_pair and follows.lower() in known and key != "jobdefaults":
                raise InvalidFile(
                    f"{where}: {name or key} has no value, so that Slurm takes {value} for it; expected "
                    f'{name or key}=value, or {name or key}=""'
                )
            if name is None:
                similar = get_close_matches(key, known, 1, _SIMILAR)
                if similar:
                    raise InvalidFile(
                        f"{where}: {what} has {key}={value}, which is no key of Slurm; expected "
                        f"{known[similar[0]]}"
                    )
                self.sentences.append(f"{where}: ignored: {key}={value} of {what}, because it is not known")
            elif key in _IGNORED[kind]:
                self._counts[name] += 1
            elif name in NOT_MODELLED and value.lower() not in _NO_EFFECT:
                self.ignore(where, f"{name}={value}", what, NOT_MODELLED[name])

    def ignore(self, where: str, setting: str, what: str, reason: str) -> None:
        self.sentences.append(f"{where}: ignored: {setting} of {what}, because {reason}")

    def all(self) -> Iterator[str]:
        """A sentence for each setting, and one for all keys that have no effect here."""
        yield from self.sentences
        if self._counts:
            listed = ", ".join(f"{name} ({n})" for name, n in sorted(self._counts.items()))
            yield f"keys without effect on the model, with their numbers of lines: {listed}"
