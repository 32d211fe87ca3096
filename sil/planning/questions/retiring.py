"""Which machines could go with the least harm."""

from __future__ import annotations

from sil.planning.options import Option
from sil.planning.plan_file import Plan
from sil.planning.scenario.on_site import ChangedSite
from sil.settings.notional import NotionalTable


def retirements(plan: Plan, today: ChangedSite) -> list[Option]:
    """One for each kind of machine: so many of its class and its clusters, the last ones, go."""
    assert plan.retire is not None
    site = today.in_use.site
    kinds: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for j, machine in enumerate(site.machines):
        kinds.setdefault((machine.machine_class, site.clusters_of_machine[j]), []).append(machine.name)
    options = []
    for (machine_class, clusters), machines in kinds.items():
        if plan.retire.machine_classes and machine_class not in plan.retire.machine_classes:
            continue
        gone = machines[-plan.retire.count :]
        if len(gone) < plan.retire.count:
            continue
        where = "".join(f" of {site.clusters[c].name}" for c in clusters)
        name = f"without {len(gone)} x {machine_class}{where}"
        options.append(Option(name, tuple(NotionalTable(remove=machine) for machine in gone)))
    return options
