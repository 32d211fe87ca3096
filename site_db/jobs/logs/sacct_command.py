"""The command whose output the readers of Slurm's accounting expect."""

from __future__ import annotations

COLUMNS = (
    "JobID,User,Account,QOS,JobName,Partition,Submit,Start,End,State,TimelimitRaw,ReqTRES,AllocTRES,NodeList"
)
"""All that is used of a job, in columns that every version of Slurm with TRES has."""
COMMAND = f"sacct -a -D -P -X -S 2026-01-01 -E now -o {COLUMNS}"
