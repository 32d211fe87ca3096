"""How a log is replayed: the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sil.declared import Setting, Settings
from sil.settings.estimates import Engine, Estimates
from sil.world.events import ORDERS

DECISION_LIMIT_S = 60.0
NONE = "none"
"""The decision cost of decisions that take no simulated time."""


@dataclass(frozen=True, kw_only=True)
class Asking(Settings):
    """How schedulers are asked, and by what engine."""

    order: Annotated[
        str,
        Setting(
            "Order of simultaneous events: default; archive, as in published schedules; or batsim (all in "
            "one message, 10 s later than in the log).",
            known=(*ORDERS,),
        ),
    ] = "default"
    decision_limit_s: Annotated[
        float, Setting("Seconds of wall time that a decision may take.", least=0.001)
    ] = DECISION_LIMIT_S
    engine: Annotated[
        Engine,
        Setting(
            "What runs the replay, with equal results: compiled, for built-in schedulers on identical "
            "processors, without decision costs and reasons; harness, for all; or auto: compiled where "
            "possible, except for few jobs."
        ),
    ] = Engine.AUTO
    seed: Annotated[int, Setting("Seed of random schedulers.", least=0)] = 1
    determinism_check: Annotated[
        bool,
        Setting(
            "Ask a second instance of schedulers that are not built in, which must decide the same.",
            without="Accept schedulers that decide differently in two instances. Random ones can declare "
            "is_random.",
        ),
    ] = True


@dataclass(frozen=True, kw_only=True)
class ReplaySettings(Asking):
    """Of the replay of one log."""

    estimates: Annotated[
        Estimates,
        Setting(
            "Run-time estimates: the users' own, the actual run times, or the mean of the user's last two "
            "run times."
        ),
    ] = Estimates.USER
    decision_cost: Annotated[
        str,
        Setting(
            "Simulated time charged for decisions: none, fixed(seconds=0.5), measured(factor=10), "
            "modelled(seconds=1e-6, a=1, b=1) for seconds * jobs^a * processors^b, or "
            "replayed(trace='OUT/easy') for the charges of an earlier run."
        ),
    ] = NONE
    memory_limit_mb: Annotated[
        float | None,
        Setting(
            "MB of memory for a scheduler that is not built in, which has a process of its own then. "
            "Default: no limit.",
            least=1.0,
        ),
    ] = None
    reasons: Annotated[bool, Setting("Record in the trace why jobs wait (for `sil why`).")] = False
    slurm_step_s: Annotated[
        float,
        Setting(
            "Seconds from one look of Slurm's controller to the next while jobs only wait: 1 is accurate, "
            "30 is faster.",
            least=0.1,
            most=600.0,
        ),
    ] = 1.0
    pause_at_s: Annotated[
        float | None,
        Setting(
            "Pause Slurm's controller at this second of the log, to look at it with squeue, sinfo, sdiag, "
            "sprio and scontrol from another terminal.",
            least=0.0,
        ),
    ] = None
