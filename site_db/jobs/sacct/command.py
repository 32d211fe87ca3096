"""The command whose output the readers of Slurm's accounting expect."""

from __future__ import annotations

_COLUMNS = (
    "JobID,User,Account,QOS,JobName,Partition,Submit,Eligible,Start,End",
    "ElapsedRaw,Suspended,State,TimelimitRaw,Constraints",
    "ReqTRES,AllocTRES,NodeList",
)
COLUMNS = ",".join(_COLUMNS)
"""All that is used of a job, in columns that every version of Slurm from 20.02 has. Between columns whose
texts users write are others, so that a | in such a text belongs to one of them."""
_OPTIONS = "SLURM_TIME_FORMAT=%s sacct -a -D -P -X -S 2026-01-01 -E now"
COMMAND = " ".join((_OPTIONS, *(f"-o {columns}" for columns in _COLUMNS)))
"""With times in seconds since 1970, which a change of the clock does not move. No word of it is longer than
a line of a terminal: sacct prints the columns of all options -o."""
COMMAND_IN_LINES = " \\\n  ".join((_OPTIONS, *(f"-o {columns}" for columns in _COLUMNS))) + " > sacct.txt"
