"""The edge of an experiment: its file and its site become a scenario."""

from __future__ import annotations

from pathlib import Path

from scheduler.rules import Kind
from sil.runs.scenario import DoesNotFit, Mistakes, Scenario
from sil.runs.under_test import Find, InProcess, resolve, resolve_all
from sil.settings.experiment_file import Experiment, read_experiment
from sil.site.site_in_use import SiteInUse
from site_db.files import toml_file
from site_db.files.input_errors import InvalidFile


def scenario_of(experiment: Experiment, in_use: SiteInUse, find: Find = resolve) -> Scenario:
    """`find` finds the schedulers under test by name. Raises DoesNotFit with everything that does not fit the
    site or the schedulers."""
    # Imported here, since nodes load compiled code.
    if experiment.shared_nodes is not None:
        from sil.runs.time_shared_scenario import TimeSharedScenario

        return TimeSharedScenario.of(experiment, in_use, find)
    if in_use.has_nodes and not _maps_to_slots(experiment, in_use, find):
        from sil.runs.nodes_scenario import NodesScenario

        return NodesScenario.of(experiment, in_use, find)
    from sil.runs.machines_scenario import MachinesScenario

    return MachinesScenario.of(experiment, in_use, find)


def _maps_to_slots(experiment: Experiment, in_use: SiteInUse, find: Find) -> bool:
    """Whether the schedulers map jobs to machines, and the site declares slots for them."""
    if all(group.slots == 1 for group in in_use.file.machines):
        return False
    schedulers, unusable = resolve_all(experiment.schedulers, Kind.MAPPING, "slots", find)
    return not unusable and all(isinstance(s, InProcess) and s.spec.kind is Kind.MAPPING for s in schedulers)


def scenario_of_file(
    experiment: Experiment, in_use: SiteInUse, source: Path, find: Find = resolve
) -> Scenario:
    """The scenario of an experiment that was read from `source`, perhaps with other schedulers. Raises
    InvalidFile with everything that does not fit, with the lines of what the file has."""
    try:
        return scenario_of(experiment, in_use, find)
    except DoesNotFit as error:
        in_file = [("schedulers", name) for name in read_experiment(source).schedulers]
        found: dict[bool, Mistakes] = {True: [], False: []}
        for place, sentence in error.mistakes:
            is_in_file = len(place) != 2 or place[0] != "schedulers" or place in in_file
            found[is_in_file].append((place, sentence))
        given = [sentence for _, sentence in found[False]]  # by an option, or in Python
        raise InvalidFile(*given, *toml_file.located(source, found[True])) from None
