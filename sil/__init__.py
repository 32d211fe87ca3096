"""The testbed: puts a real scheduler in a loop with fake machines, and tells what came of it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler import UserError
    from sil.api.charts import Chart, Plots
    from sil.api.experiment_results import ExperimentResults, read_results
    from sil.api.experiments import Experiment
    from sil.api.logs import log_from, lublin_feitelson, read_log
    from sil.api.planning import PlanAnswers, plan
    from sil.api.replaying import Replays, read_replays, replay
    from sil.api.simulation import Simulation, State
    from sil.api.sites import Site
    from sil.api.sweeping import Sweep, sweep
    from sil.policy import from_policy
    from sil.runs.own_schedulers import Factory, factory
    from sil.workload.job_log import JobLog
    from sil.world.guard.faults import SchedulerFault

    __version__: str

__all__ = [
    "Chart",
    "Experiment",
    "ExperimentResults",
    "Factory",
    "JobLog",
    "PlanAnswers",
    "Plots",
    "Replays",
    "SchedulerFault",
    "Simulation",
    "Site",
    "State",
    "Sweep",
    "UserError",
    "__version__",
    "factory",
    "from_policy",
    "log_from",
    "lublin_feitelson",
    "plan",
    "read_log",
    "read_replays",
    "read_results",
    "replay",
    "sweep",
]

_DEFINED_IN = {
    "scheduler": ["UserError"],
    "sil.api.charts": ["Chart", "Plots"],
    "sil.api.experiment_results": ["ExperimentResults", "read_results"],
    "sil.api.experiments": ["Experiment"],
    "sil.api.logs": ["log_from", "lublin_feitelson", "read_log"],
    "sil.api.planning": ["PlanAnswers", "plan"],
    "sil.api.replaying": ["Replays", "read_replays", "replay"],
    "sil.api.simulation": ["Simulation", "State"],
    "sil.api.sites": ["Site"],
    "sil.api.sweeping": ["Sweep", "sweep"],
    "sil.policy": ["from_policy"],
    "sil.runs.own_schedulers": ["Factory", "factory"],
    "sil.workload.job_log": ["JobLog"],
    "sil.world.guard.faults": ["SchedulerFault"],
}
_PLACE_OF = {name: place for place, names in _DEFINED_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loaded when it is used, since commands import this package, too, and have to start fast."""
    if name == "__version__":
        return import_module("sil.settings.code_version").package_version()
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'sil' has no attribute '{name}'")
    return getattr(import_module(_PLACE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
