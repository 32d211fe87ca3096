"""The configuration of a controller in simulated time: an operator's `slurm.conf`, overlaid.

What decides where and when jobs run is kept word for word; what concerns daemons, paths, credentials and
programs is replaced (`sil.slurm.settings`), and each replaced line is listed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from scheduler import UserError
from sil.slurm.settings import OF_ACCOUNTING, OF_NODES, OF_PARTITIONS, REASONS, Surroundings, own_settings
from site_db.files.given import InvalidFile
from site_db.files.opened import read_text
from site_db.files.slurm_lines import Line, Pair, lines_of, pairs_of

MERGED = "schedulerparameters"
"""The one setting that is a list of options of which single ones may be given anew."""
BESIDE = ("topology.conf",)
"""Other files of the operator's folder that the controller reads."""
_LEFT_OUT = ""
_GIVEN = "as given with the scheduler's name"


@dataclass(frozen=True)
class Replaced:
    """A part of a line that is not as the operator has written it. `new` is empty if it is left out."""

    where: str
    old: str
    new: str
    why: str

    def __str__(self) -> str:
        became = f"became {self.new}" if self.new else "was left out"
        return f"{self.where}: {self.old} {became}: {self.why}"


@dataclass(frozen=True)
class Configuration:
    """The lines that are kept, what was replaced, and other files for the controller's folder by name."""

    lines: tuple[str, ...]
    replaced: tuple[Replaced, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs_accounting(self) -> bool:
        """Whether fair share, QOS or limits of associations are asked for, which are in Slurm's database."""
        values = self._values()
        shares = re.search(r"[1-9]", values.get("priorityweightfairshare", "")) is not None
        enforces = values.get("accountingstorageenforce", "").lower() not in ("", "0", "none")
        has_qos = values.get("preempttype", "").lower() == "preempt/qos" or any(
            "qos" in key for key in self._keys()
        )
        return enforces or has_qos or (values.get("prioritytype", "").endswith("multifactor") and shares)

    @property
    def cluster(self) -> str:
        return self._values().get("clustername", "cluster").lower()

    def text(self, here: Surroundings) -> str:
        """The content of `slurm.conf` for a controller."""
        own = [f"{key}={value}" for key, value in own_settings(here)]
        lines = list(self.lines)
        if here.accounting_port is None:
            lines = [_without(line, OF_ACCOUNTING) for line in lines]
        if "clustername" not in self._values():
            own.append(f"ClusterName={self.cluster}")
        nodes = f"NodeAddr=127.0.0.1 NodeHostname=localhost Port={here.node_port}"
        # Nodes come last, after the settings that tell how to read them.
        return "\n".join((*own, *(f"{line} {nodes}" if _is_of_nodes(line) else line for line in lines), ""))

    def with_settings(self, text: str) -> Configuration:
        """With other settings, like `SchedulerParameters=bf_window=2880 PriorityType=priority/basic`.
        Options of SchedulerParameters are given one by one, and the others stay; a setting without a value
        is left out. Raises UserError."""
        if not text.strip():
            return self
        pairs = [*pairs_of(text)]
        words = [pair.value for pair in pairs if not pair.key]
        if words:
            raise UserError(
                f"'{words[0]}' in '{text}' is no setting of slurm.conf; expected Key=value, like "
                f"SchedulerParameters=bf_window=2880"
            )
        found = self
        for key, value in pairs:
            found = found._with_setting(key, value)
        return found

    def _with_setting(self, key: str, value: str) -> Configuration:
        name = key.lower()
        if name in REASONS:
            raise UserError(f"{key} cannot be set: {REASONS[name]}; leave it out")
        if name in ("nodename", "partitionname", "downnodes", "nodeset"):
            raise UserError(
                f"{key} cannot be set with the scheduler's name; change it in a copy of slurm.conf"
            )
        old = self._values().get(name)
        if name == MERGED and value and old:
            value = merged(old, value)
        lines = tuple(filter(None, (_without(line, {name}) for line in self.lines)))
        new = str(Pair(key, value)) if value else _LEFT_OUT
        noted = () if old is None else (Replaced("slurm.conf", f"{key}={old}", new, _GIVEN),)
        return replace(self, lines=((new,) if new else ()) + lines, replaced=(*self.replaced, *noted))

    def _values(self) -> dict[str, str]:
        """The settings that are not of nodes or partitions."""
        return {
            pair.name: pair.value
            for line in self.lines
            if not _OF_A_LINE.match(line)
            for pair in pairs_of(line)
        }

    def _keys(self) -> Iterator[str]:
        """Those of partitions."""
        for line in self.lines:
            if line.lower().startswith("partitionname="):
                yield from (pair.name for pair in pairs_of(line))


_OF_A_LINE = re.compile(r"(NodeName|PartitionName|DownNodes|NodeSet)=", re.IGNORECASE)


def _is_of_nodes(line: str) -> bool:
    return re.match(r"NodeName=(?!DEFAULT\b)", line, re.IGNORECASE) is not None


def read_configuration(path: Path) -> Configuration:
    """An operator's `slurm.conf` with all that it includes. Raises InvalidFile."""
    replaced: list[Replaced] = []
    lines: list[str] = []
    for line in lines_of(path, []):
        kept = _kept(line, replaced)
        if kept:
            lines.append(kept)
    if not any(map(_is_of_nodes, lines)):
        raise InvalidFile(f"{path}: there is no node; expected lines like 'NodeName=n[01-40] CPUs=64'")
    found = Configuration(tuple(lines))
    values = found._values()
    if not found.needs_accounting:
        left_out = [f"{name}={values[name]}" for name in sorted(OF_ACCOUNTING & values.keys())]
        why = "there is no accounting"
        replaced += (Replaced(str(path), setting, _LEFT_OUT, why) for setting in left_out)
    files = {name: read_text(path.parent / name) for name in BESIDE if (path.parent / name).is_file()}
    if values.get("topologyplugin", "").lower() == "topology/tree" and "topology.conf" not in files:
        raise InvalidFile(
            f"{path}: TopologyPlugin=topology/tree needs topology.conf beside it; add that file"
        )
    return Configuration(tuple(lines), tuple(replaced), files | {"gres.conf": gres_conf(lines)})


def configuration_of(n_nodes: int, cpus: int = 1, settings: Iterable[str] = ()) -> Configuration:
    """Slurm's own defaults, with backfilling, for identical nodes n1, n2 and so on, of which jobs take
    whole ones if each has one CPU. `settings` are further lines."""
    select = "select/linear" if cpus == 1 else "select/cons_tres"
    names = f"n[1-{n_nodes}]" if n_nodes > 1 else "n1"
    lines = (
        "ClusterName=testbed",
        f"SelectType={select}",
        *(() if cpus == 1 else ("SelectTypeParameters=CR_Core",)),
        "SchedulerType=sched/backfill",
        "PriorityType=priority/basic",
        "MaxJobCount=1000000",
        *settings,
        f"NodeName={names} CPUs={cpus} RealMemory=1000 State=UNKNOWN",
        "PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    )
    return Configuration(lines)


def merged(old: str, new: str) -> str:
    """A list of options with others in place of those of the same names, or after them."""
    options = {
        option.partition("=")[0].strip(): option.strip() for option in old.split(",") if option.strip()
    }
    options |= {
        option.partition("=")[0].strip(): option.strip() for option in new.split(",") if option.strip()
    }
    return ",".join(options.values())


def _kept(line: Line, replaced: list[Replaced]) -> str:
    """What is kept of a line; what is not, is added to `replaced`."""
    if "nodename" in line.values:
        left_out, new = OF_NODES, _LEFT_OUT
    elif "partitionname" in line.values:
        left_out, new = OF_PARTITIONS, _LEFT_OUT
    else:
        left_out, new = REASONS, None
    kept: list[str] = []
    for pair in line.pairs:
        key, value = pair
        became, why = str(pair), ""
        if pair.name in left_out:
            became = _OURS.get(pair.name, _LEFT_OUT) if new is None else new
            why = left_out[pair.name]
            if became.lower() == f"{key}={value}".lower():
                continue
        elif pair.name == "state" and "nodename" in line.values and value.upper() == "CLOUD":
            became, why = "State=UNKNOWN", "nodes do not save power"
        elif pair.name == "gres" and _SHARES_OF_GPUS.search(value):
            whole = _SHARES_OF_GPUS.sub("", value).strip(",")
            became, why = f"{key}={whole}" if whole else _LEFT_OUT, "GPUs are not shared here"
        if why:
            replaced.append(Replaced(line.where, f"{key}={value}", became, why))
        if became and pair.name not in left_out:
            kept.append(became)
    return " ".join(kept)


_SHARES_OF_GPUS = re.compile(r"(^|,)(shard|mps)\b[^,]*")


_OURS = {
    key.lower(): f"{key}={value}"
    for key, value in own_settings(
        Surroundings("(a directory of the run)", "(the calling user)", "(free)", "(free)")
    )
    if key not in ("AuthType", "CredType", "AccountingStorageType")
} | {
    **dict.fromkeys(("authtype", "authinfo", "credtype"), "(munge of the run, or none)"),
    **dict.fromkeys(("accountingstoragetype", "accountingstoragehost"), "(slurmdbd of the run, or none)"),
}
"""What takes the place of a setting, for people."""


def _without(line: str, names: Collection[str]) -> str:
    """A line without some settings, in small letters; lines of nodes and partitions may have others that are
    called the same."""
    return line if _OF_A_LINE.match(line) else _without_keys(line, names)


def _without_keys(line: str, names: Collection[str]) -> str:
    return " ".join(str(pair) for pair in pairs_of(line) if pair.name not in names)


def gres_conf(lines: Iterable[str]) -> str:
    """`gres.conf` for the nodes' generic resources: counted, without files."""
    found = ["AutoDetect=off"]
    for line in filter(_is_of_nodes, lines):
        values = {pair.name: pair.value for pair in pairs_of(line)}
        for part in filter(None, re.sub(r"\([^)]*\)", "", values.get("gres", "")).split(",")):
            name, *rest = [word for word in part.split(":") if word != "no_consume"] or [""]
            count = rest.pop() if rest and rest[-1][:1].isdigit() else "1"
            kind = f" Type={rest[0]}" if rest else ""
            found.append(f"NodeName={values['nodename']} Name={name}{kind} Count={count}")
    return "\n".join((*found, ""))
