"""What of an experiment does not fit its site, or the schedulers that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from scheduler import registry
from scheduler.kinds import Kind
from scheduler.managers.queues import in_order_of_service
from sil.batsim.naming import listens_already
from sil.runs.under_test import brings_its_manager
from sil.settings.experiment_file import Experiment
from sil.settings.notional import NO_TIME_CHANGES
from sil.site.resource_names import Places
from sil.site.site_in_use import SiteInUse
from site_db.toml_file import Location


def problems(experiment: Experiment, in_use: SiteInUse) -> Iterator[tuple[Location, str]]:
    """What in an experiment does not fit its site: (place in the experiment file, sentence)."""
    site = in_use.site
    known = {
        "mix": ("job class", [k.name for k in site.job_classes]),
        "queues": ("queue", [queue.name for queue, _ in in_use.queues]),
        "sizes": ("job class", [k.name for k in site.job_classes]),
    }
    for key, (what, names) in known.items():
        for name in getattr(experiment.workload, key):
            if name not in names:
                yield (
                    ("workload", key, name),
                    (
                        f"the workload names the {what} '{name}', which the site '{site.name}' does not "
                        f"have; it has {', '.join(names)}"
                    ),
                )
    try:
        in_order_of_service([policy for policy, _ in in_use.queues])
    except ValueError as error:
        yield ("queues",) if experiment.queues else ("site",), str(error)
    machines: Collection[str] = site.machine_index
    if experiment.shared_nodes is not None:
        from sil.runs.time_shared_experiment import problems_on_shared_nodes

        found = list(problems_on_shared_nodes(experiment, in_use))
        yield from found
        if found:
            return
        machines = Places.of(experiment, in_use).names
    interconnects = [x.name for x in site.interconnects]
    for k, outage in enumerate(experiment.outages):
        name = outage.machine or outage.interconnect
        if name not in (machines if outage.machine else interconnects):
            kind = "machine" if outage.machine else "interconnect"
            where = f"the site '{site.name}'" if machines is site.machine_index else "the shared cluster"
            yield ("outages", k, kind), f"{where} has no {kind} '{name}'"


def misfits(experiment: Experiment, in_use: SiteInUse) -> Iterator[str]:
    """Schedulers that cannot do what the experiment asks, a sentence each."""
    shared = experiment.shared_nodes is not None
    own = () if shared else tuple(own for _, own in in_use.queues if own)
    for name in (*experiment.schedulers, *own):
        if brings_its_manager(name):
            if name in own:
                yield f"scheduler '{name}' keeps queues of its own: it cannot be that of one queue"
            elif listens_already(name) and experiment.replications * len(experiment.points) > 1:
                yield (
                    f"scheduler '{name}' listens for one run, and this experiment has several; name a "
                    f"command that starts one for each, as in 'batsim: COMMAND'"
                )
            continue
        wrong = registry.misfit(name, Kind.SHARED_NODES if shared else Kind.MAPPING)
        if wrong is not None:
            where = "on shared nodes" if shared else "without a table shared_nodes"
            yield f"{wrong} ({where}, as in this experiment)"
    if shared:
        from sil.runs.time_shared_experiment import cannot_promise

        yield from cannot_promise(experiment)


def notes(experiment: Experiment, in_use: SiteInUse) -> Iterator[str]:
    """What of the experiment is imagined, or left out and why: a sentence each."""
    if experiment.notional:
        changes = "; ".join(change.told() for change in experiment.notional)
        yield f"the site is imagined to be another: {changes}"
        if experiment.shared_nodes is None:
            unmoved = (change.told() for change in experiment.notional if change.leaves_times)
            yield from (f"{told}: {NO_TIME_CHANGES}" for told in unmoved)
    if experiment.shared_nodes is not None:
        from sil.runs.time_shared_experiment import cannot_predict

        yield from cannot_predict(experiment)
        for policy, own in in_use.queues:
            if own is not None:
                yield f"the scheduler '{own}' of the queue '{policy.name}' is not used: here nodes are shared"
