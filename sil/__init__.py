"""The testbed: runs a real scheduler in a loop with simulated machines, and evaluates the results."""

from __future__ import annotations

import os
import sys


def _leave_out_current_folder() -> None:
    """Take the current folder off the path, before anything else is imported for the command `sil`, or
    `python -m sil`: its files may have the names of modules that libraries look for. Modules of schedulers
    are found all the same (`sil.runs.under_test.Isolation`)."""
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

import re  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from sil.usable import VERSION  # noqa: E402

if TYPE_CHECKING:
    from scheduler import UserError as UserError
    from sil.api.charts import Chart as Chart
    from sil.api.charts import Plots as Plots
    from sil.api.experiment_results import ExperimentResults as ExperimentResults
    from sil.api.experiment_results import read_results as read_results
    from sil.api.experiments import Experiment as Experiment
    from sil.api.logs import log_from as log_from
    from sil.api.logs import lublin_feitelson as lublin_feitelson
    from sil.api.logs import read_log as read_log
    from sil.api.planning import PlanAnswers as PlanAnswers
    from sil.api.planning import plan as plan
    from sil.api.rehearsing import rehearse as rehearse
    from sil.api.replaying import Replays as Replays
    from sil.api.replaying import read_replays as read_replays
    from sil.api.replaying import replay as replay
    from sil.api.simulation import Simulation as Simulation
    from sil.api.simulation import State as State
    from sil.api.sites import Site as Site
    from sil.api.sweeping import Sweep as Sweep
    from sil.api.sweeping import sweep as sweep
    from sil.runs.policies import from_policy as from_policy
    from sil.runs.under_test import Factory as Factory
    from sil.runs.under_test import factory as factory
    from sil.workload.job_log import JobLog as JobLog
    from sil.world.guard.faults import SchedulerFault as SchedulerFault

__version__ = VERSION
_IMPORT = re.compile(r"^    from (\S+) import (\w+) as ", re.MULTILINE)
_PLACE_OF = {name: place for place, name in _IMPORT.findall(Path(__file__).read_text(encoding="utf-8"))}
"""The module of each public name, as type checkers find them above."""
__all__ = sorted(["__version__", *_PLACE_OF])


def __getattr__(name: str) -> Any:
    """Load a name when it is used, since commands import this package, too, and have to start fast."""
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'sil' has no attribute '{name}'")
    from sil.usable import unusable

    if (message := unusable()) is not None:
        raise ImportError(message)
    return getattr(import_module(_PLACE_OF[name]), name)


def __dir__() -> list[str]:
    return __all__
