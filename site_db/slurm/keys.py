"""The keys of nodes and partitions in `slurm.conf`: which are read, and which are ignored, and why.

<https://slurm.schedmd.com/slurm.conf.html>
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from site_db.files.input_errors import quoted, shortened
from site_db.slurm.lines import Line, Pair

_READ = {
    "nodename": """NodeName Boards CoreSpecCount CoresPerSocket CPUs CpuSpecList Feature Features Gres
        MemSpecLimit Procs RealMemory Reason Sockets SocketsPerBoard State ThreadsPerCore""",
    "partitionname": "PartitionName DefaultTime Exclusive MaxNodes MaxTime Nodes OverSubscribe Shared State",
    "downnodes": "DownNodes Reason State",
    "nodeset": "NodeSet Feature Nodes",
}
KINDS = tuple(_READ)
"""Keys that begin a line of their own, in lower case."""
_WITHOUT_EFFECT = {
    "nodename": """BcastAddr CpuBind GresConf NodeAddr NodeHostname Parameters Port RestrictedCoresPerGPU
        SuspendTime TmpDisk Topology TRESWeights Weight""",
    "partitionname": """Alternate CpuBind Default DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode
        DisableRootJobs GraceTime Hidden JobDefaults LLN OverTimeLimit PowerDownOnIdle ResumeTimeout
        RootOnly SelectTypeParameters SuspendTime SuspendTimeout Topology TRESBillingWeights""",
    "downnodes": "",
    "nodeset": "",
}
"""Keys that are valid, and of no use to the model."""
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
    "QOS": "the limits of a QOS are in Slurm's database",
    "ReqResv": "there are no reservations of nodes",
}
"""Why keys of partitions that decide where and when jobs may run are ignored."""
_NO_EFFECT = ("", "all", "0", "1", "no", "none", "off", "unlimited", "infinite", "n/a", "-1")
"""Values that state nothing."""
_SAME = {"procs": "cpus", "features": "feature", "shared": "oversubscribe", "socketsperboard": "sockets"}
"""Other names of keys."""
_SIMILAR = 0.8


_KNOWN = {
    kind: {name.lower(): name for name in f"{_READ[kind]} {_WITHOUT_EFFECT[kind]}".split()} for kind in _READ
}
"""The keys by their names in lower case."""
_KNOWN["partitionname"] |= {name.lower(): name for name in NOT_MODELLED}


@dataclass
class IgnoredKeys:
    """What the lines of a file say that the model leaves out. It has the keys `modelled` (small letters)."""

    modelled: Collection[str] = ()
    sentences: list[str] = field(default_factory=list)
    _counts: Counter[str] = field(default_factory=Counter)

    def note(self, kind: str, whole: Line, line: Line) -> None:
        """A line that begins with `kind`, in small letters, and the same with its defaults.

        Raises InvalidFile for words that belong to no key, and for a value that would be lost: that of a key
        which is not known, but similar to one that is read and that the line does not have.
        """
        known = _KNOWN[kind]
        what = f"{known[kind]}={line.values[kind]}"
        if line.is_output:  # which has more keys than a file may have
            for key, value in line.values.items():
                if key in known:
                    self._note_known(kind, known[key], value, what, line)
            return
        line.check_words()
        for pair in line.pairs:
            follows, is_pair, _ = pair.value.partition("=")
            if is_pair and follows.lower() in known and pair.name != "jobdefaults":
                raise line.mistake(
                    f"{pair.key} has no value, so that Slurm takes {pair.value} for it; expected "
                    f'{pair.key}=value, or {pair.key}=""'
                )
            if pair.name in known:
                self._note_known(kind, known[pair.name], pair.value, what, line)
            else:
                self._note_unknown(kind, pair, what, whole)

    def _note_known(self, kind: str, name: str, value: str, what: str, line: Line) -> None:
        if name.lower() in self.modelled:
            return
        if name in _WITHOUT_EFFECT[kind].split():
            if not line.is_output:
                self._counts[name] += 1
        elif name in NOT_MODELLED and value.lower() not in _NO_EFFECT:
            self.ignore(line.where, f"{name}={value}", what, NOT_MODELLED[name])

    def _note_unknown(self, kind: str, pair: Pair, what: str, whole: Line) -> None:
        known = _KNOWN[kind]
        similar = next(iter(get_close_matches(pair.name[:40], known, 1, _SIMILAR)), None)
        if similar is None:
            self.ignore(whole.where, f"{pair.key}={pair.value}", what, "it is not known")
            return
        is_read = known[similar] in _READ[kind].split() or similar in self.modelled
        stated = {_SAME.get(key, key) for key in whole.values}
        if is_read and _SAME.get(similar, similar) not in stated:
            raise whole.mistake(
                f"{what} has {pair.key}={pair.value}, which is no key of Slurm; expected {known[similar]}"
            )
        reason = f"it is not known; did you mean {known[similar]}?"
        self.ignore(whole.where, f"{pair.key}={pair.value}", what, reason)

    def check_first_word(self, line: Line) -> None:
        """Raise InvalidFile for a line of a configuration that seems to be of nodes or partitions, but has
        no `=` or another key, and for words without a key, which Slurm refuses, too."""
        if line.is_output or not line.pairs:
            return
        first = line.pairs[0]
        if not first.key and first.value.lower() in _READ:
            raise line.mistake(f"{quoted(first.value)} is not followed by =; expected Key=value")
        line.check_words()
        if len(line.pairs) > 1 and (meant := get_close_matches(first.name, KINDS, 1, _SIMILAR)):
            name = next(iter(_READ[meant[0]].split()))
            raise line.mistake(f"{quoted(first.key)} is no key of Slurm; expected {name}")

    def ignore(self, where: str, setting: str, what: str, reason: str) -> None:
        sentence = f"ignored: {shortened(setting, 120)} of {shortened(what, 120)}, because {reason}"
        self.sentences.append(f"{where}: {sentence}")

    def all(self) -> Iterator[str]:
        """A sentence for each setting, and one for all keys that have no effect here."""
        yield from self.sentences
        if self._counts:
            listed = ", ".join(f"{name} ({n})" for name, n in sorted(self._counts.items()))
            yield f"keys without effect on the model, with their numbers of lines: {listed}"
