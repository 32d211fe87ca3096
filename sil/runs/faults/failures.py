"""The table `failures` of an experiment, resolved at its site: what fails, and what is slow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf

import numpy as np

from scheduler.model import Job
from sil.settings.faults import FailuresTable, GroupsTable, RandomFailuresTable, SlowMachinesTable
from sil.world.failures import Flapping, RandomFailures, TimedChange
from sil.world.hindrances import Hindrances, SlowMachines, failing_runs
from sil.world.random_streams import RandomStreams
from site_db.files.toml_file import Location


def at_random(
    table: FailuresTable, machines: Mapping[str, int], interconnects: Sequence[str], streams: RandomStreams
) -> Iterator[Iterator[TimedChange]]:
    """Of `machines` (index by name), of groups of them, and of interconnects; each has its own random
    numbers."""
    if table.machines is not None:
        singles = [(j,) for j in machines.values()]
        yield _process(table.machines).changes(singles, streams.of("failures"))
    for name, of_groups in table.groups.items():
        groups = _groups(of_groups, machines)
        yield _process(of_groups).changes(groups, streams.of(f"failures of groups {name}"))
    if table.interconnects is not None:
        each = [(name,) for name in interconnects]
        yield _process(table.interconnects).changes(each, streams.of("failures of interconnects"))


def hindrances(
    table: FailuresTable,
    jobs: Sequence[Job],
    machines: Mapping[str, Sequence[int]],
    streams: RandomStreams,
    most_s: Callable[[Job], float] = lambda job: inf,
) -> Hindrances | None:
    """Slow machines, and the failing runs of `jobs`; None without any. `machines` are indices in orders by
    name: the slots of each. `most_s` is the time limit of a job, at which its runs end."""
    slow = []
    for name, of_slow in table.slow_machines.items():
        chosen = _chosen(of_slow, [*machines], streams.of(f"slow machines {name}"))
        places = frozenset(place for machine in chosen for place in machines[machine])
        to_s = inf if of_slow.to_s is None else of_slow.to_s
        slow.append(SlowMachines(places, of_slow.factor, of_slow.from_s, to_s))
    failing = {}
    for name, of_jobs in reversed(table.jobs.items()):  # the first one counts for a job of several
        draws = streams.of(f"failing jobs {name}").random((len(jobs), 2)).tolist()
        classes = of_jobs.job_classes
        for job, (draw, of_runs) in zip(jobs, draws, strict=True):
            if draw < of_jobs.share and (classes is None or job.job_class in classes):
                failing[job.id] = failing_runs(of_jobs.probability, of_jobs.after, of_runs)
    return Hindrances(slow, failing, most_s) if slow or failing else None


def unknown_names(
    table: FailuresTable, machines: Collection[str], owner: str, job_classes: Sequence[str], has_lines: bool
) -> Iterator[tuple[Location, str]]:
    """What the table names and the site does not have, with the places in the file; `has_lines`: whether it
    has interconnects that jobs need."""
    for key, tables in (("groups", table.groups), ("slow_machines", table.slow_machines)):
        for name, of_some in tables.items():
            for machine in of_some.machines or ():
                if machine not in machines:
                    yield ("failures", key, name, "machines"), f"{owner} has no machine '{machine}'"
    for name, of_jobs in table.jobs.items():
        for job_class in of_jobs.job_classes or ():
            if job_class not in job_classes:
                known = ", ".join(job_classes)
                yield (
                    ("failures", "jobs", name, "job_classes"),
                    f"{owner} has no job class '{job_class}'; it has {known}",
                )
    if table.interconnects is not None and not has_lines:
        yield ("failures", "interconnects"), f"{owner} has no interconnects that jobs need"


def _process(table: RandomFailuresTable) -> RandomFailures:
    flapping = Flapping(**table.flapping.model_dump()) if table.flapping else Flapping()
    return RandomFailures(table.mean_time_between_failures_s, table.mean_time_to_repair_s, flapping)


def _groups(table: GroupsTable, machines: Mapping[str, int]) -> list[list[int]]:
    indices = [machines[name] for name in table.machines or machines]
    size = table.size or len(indices)
    return [indices[k : k + size] for k in range(0, len(indices), size)]


def _chosen(table: SlowMachinesTable, machines: Sequence[str], rng: np.random.Generator) -> Sequence[str]:
    """Those listed, or a share; a greater share has those of a smaller one, too."""
    if table.machines is not None:
        return table.machines
    assert table.share is not None
    return [machines[k] for k in rng.permutation(len(machines))[: round(table.share * len(machines))]]
