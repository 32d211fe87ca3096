"""The states of Slurm's jobs: which jobs used their nodes, and why others are left out.

<https://slurm.schedmd.com/job_state_codes.html>
"""

from __future__ import annotations

from functools import lru_cache

_UNFINISHED = """COMPLETING CONFIGURING EXPEDITING PENDING POWER_UP_NODE REQUEUE_FED REQUEUE_HOLD RESIZING
    RESV_DEL_HOLD RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED"""
REFUSED = {
    **dict.fromkeys(_UNFINISHED.split(), "the job has not ended"),
    "BOOT_FAIL": "a node of the job did not boot",
    "CANCELLED": "the job was cancelled",
    "COMPLETED": "",
    "DEADLINE": "the job would have missed its deadline",
    "FAILED": "the job failed",
    "LAUNCH_FAILED": "the job could not be launched",
    "NODE_FAIL": "a node of the job failed",
    "OUT_OF_MEMORY": "the job ran out of memory",
    "PREEMPTED": "the job was preempted",
    "RECONFIG_FAIL": "a node of the job could not be reconfigured",
    "REQUEUED": "the job was requeued",
    "REVOKED": "the job ran on another cluster",
    "TIMEOUT": "the job ran into its time limit",
}
"""All states, with the reason for which a job in it is refused; one that completed is not."""

COMPLETED = frozenset({"COMPLETED"})
RUNNING = "RUNNING"
"""Such a job used its nodes until the log was printed."""
_RAN = "CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REQUEUED TIMEOUT"
RAN = frozenset(_RAN.split())
"""The states of jobs that used their nodes, for whatever result."""


@lru_cache(1_024)
def state_of(text: str) -> str:
    """The state itself. A text too wide for its column is cut and ends in +: it counts as any of the possible
    states if all are alike."""
    text = text.upper()
    if text.endswith("+"):
        possible = [state for state in REFUSED if state.startswith(text[:-1])]
        if len({REFUSED[state] for state in possible}) == 1:
            return possible[0]
    # Slurm appends the user who cancelled: "CANCELLED by 1234".
    return "CANCELLED" if text.startswith("CANCELLED ") else text
