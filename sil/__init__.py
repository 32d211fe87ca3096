"""The testbed: puts a real scheduler in a loop with fake machines, and tells what came of it."""

from __future__ import annotations

import os
import sys


def _leave_out_current_folder() -> None:
    """Before anything else is imported for the command `sil`, or `python -m sil`: files of the current folder
    may have the names of modules that libraries look for. Those of schedulers are found all the same
    (`sil.runs.under_test.Isolation`)."""
    program = os.path.basename(sys.argv[0]) if sys.argv else ""
    if program not in ("sil", "sil.exe") and (program != "-m" or "sil" not in sys.orig_argv):
        return
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it has been deleted
        return
    if here != os.path.realpath(os.path.dirname(__path__[0])):
        sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != here]
        if given := os.environ.get("PYTHONPATH"):  # of which an empty entry means it
            others = [entry for entry in given.split(os.pathsep) if os.path.realpath(entry) != here]
            os.environ["PYTHONPATH"] = os.pathsep.join(others)


_leave_out_current_folder()

from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

if TYPE_CHECKING:
    from scheduler import UserError
    from sil.api.charts import Chart, Plots
    from sil.api.experiment_results import ExperimentResults, read_results
    from sil.api.experiments import Experiment
    from sil.api.logs import log_from, lublin_feitelson, read_log
    from sil.api.planning import PlanAnswers, plan
    from sil.api.rehearsing import rehearse
    from sil.api.replaying import Replays, read_replays, replay
    from sil.api.simulation import Simulation, State
    from sil.api.sites import Site
    from sil.api.sweeping import Sweep, sweep
    from sil.policy import from_policy
    from sil.runs.under_test import Factory, factory
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
    "rehearse",
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
    "sil.api.rehearsing": ["rehearse"],
    "sil.api.replaying": ["Replays", "read_replays", "replay"],
    "sil.api.simulation": ["Simulation", "State"],
    "sil.api.sites": ["Site"],
    "sil.api.sweeping": ["Sweep", "sweep"],
    "sil.policy": ["from_policy"],
    "sil.runs.under_test": ["Factory", "factory"],
    "sil.workload.job_log": ["JobLog"],
    "sil.world.guard.faults": ["SchedulerFault"],
}
_PLACE_OF = {name: place for place, names in _DEFINED_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    """Loaded when it is used, since commands import this package, too, and have to start fast."""
    if name == "__version__":
        return import_module("sil.settings.files").package_version()
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'sil' has no attribute '{name}'")
    from sil.shadowed import shadowed

    if (message := shadowed()) is not None:
        raise ImportError(message)
    return getattr(import_module(_PLACE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
