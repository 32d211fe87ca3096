"""Settings by which a site of Slurm does not serve its jobs first come, first served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler import counted, shown
from site_db.files.given import shortened
from site_db.slurm.lines import Line

_WITHOUT_EFFECT = {
    "prioritytype": ("priority/basic",),
    "accountingstorageenforce": ("none", "0"),
    "preempttype": ("preempt/none",),
    "preemptmode": ("off",),
    "schedulertype": ("sched/builtin",),
    "schedulerparameters": (),
}
"""The settings, and their values with which jobs are served in the order in which they arrive."""


def order_of_service(settings: Mapping[str, Line]) -> Iterator[str]:
    """A sentence, if there are such settings; each with its line."""
    found: list[str] = []
    for name, line in settings.items():
        value = line.values[name]
        plain = ("0",) if name.startswith("priorityweight") else _WITHOUT_EFFECT.get(name)
        if plain is not None and value.lower() not in ("", *plain):
            key = next(pair.key for pair in line.pairs if pair.name == name)
            found.append(shortened(f"{key}={value}", 80))
    if found:
        yield (
            f"{counted(len(found), 'setting')} of slurm.conf for the order of jobs, for preemption or for "
            f"limits ({shown(found)}): not modelled by the built-in schedulers, of which fcfs serves jobs in "
            f"the order in which they arrive; Slurm's own controller (the scheduler 'slurm') has them"
        )
