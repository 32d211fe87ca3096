"""The columns of Slurm's accounting, and the forms of their values.

A column that is not listed holds text of users, in which anything may be written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from site_db.jobs.sacct.states import REFUSED

UNKNOWN = ("", "unknown", "none", "n/a", "none assigned")
"""In place of a value, in small letters."""
_UNKNOWN = "|".join(UNKNOWN)
_FORMS = {
    "job": r"\d+(_(\d+|\[[\d,:%.-]*\]?))?(\+\d+)?(\.\w[\w+.-]*)?",
    "state": rf"({'|'.join(REFUSED)})\+?|cancelled by \S+|[a-z_]+\+",
    "time": rf"\d{{4}}-\d\d-\d\d[t ]\d\d:\d\d\S*|\d{{1,12}}{_UNKNOWN}",
    "duration": rf"(\d+-)?\d+(:\d+){{0,2}}(\.\d+)?|unlimited|partition_limit|infinite|invalid{_UNKNOWN}",
    "count": r"-?\d*(\.\d+)?[kmgtpe]?[cn]?\??|n/a|unknown",
    "tres": r"([^\s=,]+=[^\s=,|]*,?)*",
    "exit": r"(\d+:\d+)?",
    "nodes": rf"[\w.,\[\]-]+{_UNKNOWN}",
    "word": r"\S*",
    "name": r".*",
}
"""What values of each kind look like, in any case. Each of them accepts all that Slurm prints: then the true
reading of a row is always among the possible ones."""
_MATCHES = {kind: re.compile(form, re.IGNORECASE | re.DOTALL) for kind, form in _FORMS.items()}

_KINDS = {
    "job": "JobID JobIDRaw",
    "state": "State",
    "time": "Submit Eligible Start End",
    "duration": """AveCPU CPUTime CPUTimeRAW Elapsed ElapsedRaw MinCPU Planned PlannedCPU PlannedCPURAW
        Reserved ResvCPU ResvCPURAW Suspended SystemCPU Timelimit TimelimitRaw TotalCPU UserCPU""",
    "count": """AllocCPUS AllocNodes AssocID AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize ConsumedEnergy
        ConsumedEnergyRaw DBIndex GID MaxDiskRead MaxDiskWrite MaxPages MaxRSS MaxVMSize NCPUS
        NNodes NTasks Priority QOSRAW ReqCPUS ReqMem ReqNodes ReservationId Restarts UID""",
    "tres": """AllocTRES ReqTRES TRESUsageInAve TRESUsageInMax TRESUsageInMin TRESUsageInTot TRESUsageOutAve
        TRESUsageOutMax TRESUsageOutMin TRESUsageOutTot""",
    "exit": "ExitCode DerivedExitCode",
    "nodes": "NodeList",
    "word": """AllocGRES AveCPUFreq BlockID Cluster Flags Layout MaxDiskReadNode MaxDiskReadTask
        MaxDiskWriteNode MaxDiskWriteTask MaxPagesNode MaxPagesTask MaxRSSNode MaxRSSTask
        MaxVMSizeNode MaxVMSizeTask McsLabel MinCPUNode MinCPUTask Partition QOS QOSREQ
        ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqGRES SLUID TRESUsageInMaxNode
        TRESUsageInMaxTask TRESUsageInMinNode TRESUsageInMinTask TRESUsageOutMaxNode TRESUsageOutMaxTask
        TRESUsageOutMinNode TRESUsageOutMinTask WCKeyID""",
    "name": "Account Group User",
}
_KIND = {name.lower(): kind for kind, names in _KINDS.items() for name in names.split()} | {"": "name"}
_TEXTS = """AdminComment Comment Constraints Container Extra JobName Reason Reservation StdErr StdIn StdOut
    SubmitLine SystemComment WCKey WorkDir"""

SPELLED = {name.lower(): name for names in (*_KINDS.values(), _TEXTS) for name in names.split()}
"""Columns as Slurm spells them, by their names in small letters."""

_BEGINNINGS = {
    "workdir": re.compile("/|$"),
    "submitline": re.compile(r"(\S*/)?(sbatch|srun|salloc|scrontab)\b|$"),
}
"""With what texts of programs usually begin."""


def is_unknown(time: str) -> bool:
    return time == "0" or time.lower() in UNKNOWN


def is_free(column: str) -> bool:
    """Whether users write what is in a column."""
    return column not in _KIND


def kinds_of(columns: Sequence[str]) -> dict[str, int]:
    """The places of the columns of each kind, as bits; without those that hold any text."""
    found: dict[str, int] = {}
    for place, column in enumerate(columns):
        if not is_free(column):
            found[_KIND[column]] = found.get(_KIND[column], 0) | 1 << place
    return found


def has_form(kind: str, text: str) -> bool:
    return _MATCHES[kind].fullmatch(text) is not None


def unlikely_beginnings(columns: Sequence[str], text: str) -> int:
    """The places of columns that hardly begin with a text, as bits."""
    places = (place for place, name in enumerate(columns) if name in _BEGINNINGS)
    return sum(1 << place for place in places if not _BEGINNINGS[columns[place]].match(text))


def kind_of(column: str) -> str | None:
    """None for text of users."""
    return _KIND.get(column)
