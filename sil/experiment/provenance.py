"""Provenance: which experiment, site and version of the code a trace comes from."""

from __future__ import annotations

import hashlib
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.messages import counted
from sil.runs.under_test import BatsimProgram, InProcess, SlurmProgram, UnderTest
from sil.settings.files import SCHEDULER, all_sources, module_spec, scheduler_source, source_hash
from sil.trace.facts import RunDescription
from sil.usable import VERSION

if TYPE_CHECKING:
    from sil.runs.scenario import Scenario  # which load much that a replay does not need
    from sil.settings.experiment_file import GridValue, WorkloadTable


def describe(scenario: Scenario) -> RunDescription:
    """The description of an experiment in its trace."""
    experiment, site, resources = scenario.experiment, scenario.in_use.site, scenario.resources
    class_of = {name: group.machine_class for group in scenario.in_use.file.machines for name in group.names}
    class_of |= {slot.name: slot.machine_class for slot in site.machines}
    if experiment.clusters:
        class_of = dict(zip(resources.names, resources.node_classes, strict=False))
    names = tuple(name for name in resources.names if name in class_of)
    return RunDescription(
        experiment=experiment.name,
        description=experiment.description,
        version=VERSION,
        scheduler_source=scheduler_source(),
        seed=experiment.seed,
        replications=experiment.replications,
        schedulers=experiment.schedulers,
        site=resources.site,
        machines=names,
        machine_classes=tuple(class_of[name] for name in names),
        clusters=tuple(name for name in resources.names if name not in class_of),
        job_classes=tuple(job_class.name for job_class in site.job_classes),
        workload=_workload(scenario),
        points=tuple({key: _text(value) for key, value in at.items()} for at in experiment.points),
        shared_cluster=resources.time_shared_cluster,
        runs_known=scenario.in_use.as_of,
        bounded_slowdown_threshold_s=experiment.bounded_slowdown_threshold_s,
        **scenario.model,
    )


def _text(value: GridValue) -> int | float | str:
    return ", ".join(value) if isinstance(value, tuple) else value


def _workload(scenario: Scenario) -> str:
    log, workload = scenario.in_use.log, scenario.experiment.workload
    if log is not None:
        table = scenario.experiment.log or scenario.experiment.history
        drawn = []
        if table is not None and table.weeks is not None:
            drawn = [f"{table.weeks} weeks drawn, at {table.load:g} times their load"]
        return ", ".join([log.summary, *log.part, *drawn])
    assert workload is not None
    in_grid = "workload.jobs" in scenario.experiment.grid
    if not scenario.experiment.clusters:
        return _drawn(workload, in_grid)
    own = [(each.name, each.workload) for each in scenario.experiment.clusters]
    texts = [f"{name}: {_drawn(of or workload, in_grid and of is None)}" for name, of in own]
    return "; ".join(texts)


def _drawn(workload: WorkloadTable, in_grid: bool) -> str:
    jobs = "jobs as the grid says" if in_grid else counted(workload.jobs, "job")
    return f"{jobs}, arrivals {workload.arrivals.kind.replace('_', ' ')}, classes {workload.order}"


def fingerprint(scenario: Scenario) -> str:
    """A digest that is equal if the same runs would result: of experiment, site, version and all code that
    may matter."""
    digest = hashlib.sha256()
    for text in (
        scenario.experiment.canonical(),
        scenario.in_use.digest(),
        VERSION,
        all_sources(),
        *map(code_under_test, (*scenario.schedulers, *scenario.queue_schedulers.values())),
    ):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def fingerprint_of_runs(scenario: Scenario) -> str:
    """The same for any number of replications, since no run depends on it."""
    once = scenario.experiment.model_copy(update={"replications": 1})
    return fingerprint(replace(scenario, experiment=once))


def code_under_test(scheduler: UnderTest) -> str:
    """Hash of a scheduler's code: its module, or the whole package around it; of a command, the files that it
    names."""
    name = scheduler.label
    if isinstance(scheduler, BatsimProgram | SlurmProgram):
        return name + "".join(
            hashlib.sha256(path.read_bytes()).hexdigest() for path in scheduler.program.files
        )
    assert isinstance(scheduler, InProcess)
    if scheduler.spec.source is not None:
        name += hashlib.sha256(pickle.dumps(scheduler.spec.source)).hexdigest()
    top, _, _ = scheduler.spec.target.partition(":")[0].partition(".")
    try:
        spec = module_spec(top, None if scheduler.isolation is None else scheduler.isolation.folder)
    except ValueError:  # a script or a notebook, which the pickled source includes
        return name
    if spec is None or spec.origin is None:
        return name
    origin = Path(spec.origin)
    if origin.parent == SCHEDULER:
        return name + scheduler_source()
    if origin.name == "__init__.py":
        return name + source_hash(origin.parent)
    return name + hashlib.sha256(origin.read_bytes()).hexdigest()
