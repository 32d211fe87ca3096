"""What could be done: an option is a set of changes to a site, and their cost."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sil.planning.plan_file import OfferTable, Plan, RetireTable
from sil.settings.experiment_file import Files
from sil.settings.notional import NotionalTable
from sil.site.site_in_use import SiteInUse
from site_db.files.access import Memory

Counts = tuple[int, ...]
"""How many of each offer of the plan, in its order."""
BYTES_OF_A_COMBINATION = 200


@dataclass(frozen=True)
class Option:
    """`offers` are the positions of its offers in the plan, one for each unit bought. `processors` are added
    to the machine of a log."""

    name: str
    changes: tuple[NotionalTable, ...] = ()
    cost: float = 0.0
    offers: tuple[int, ...] = ()
    processors: int = 0
    policy: tuple[tuple[str, Files], ...] = ()
    """What of the policy is not as in the plan, by key."""
    schedulers: tuple[str, ...] = ()
    """Under which several clusters are joined; none: they are as today."""


AS_IT_IS = Option("as it is")


def one_of_each(plan: Plan) -> list[Option]:
    """Each offer alone, once."""
    return [bought(plan, only(plan, k, 1)) for k in range(len(plan.offers))]


def only(plan: Plan, k: int, n: int) -> Counts:
    """`n` units of offer `k` and nothing else."""
    return with_more((0,) * len(plan.offers), k, n)


def with_more(counts: Counts, k: int, n: int) -> Counts:
    """`n` more units of offer `k`, or fewer."""
    return (*counts[:k], counts[k] + n, *counts[k + 1 :])


def bought(plan: Plan, counts: Counts) -> Option:
    units = [(k, offer, n) for k, (offer, n) in enumerate(zip(plan.offers, counts, strict=True)) if n]
    if not units:
        return AS_IT_IS
    return Option(
        " + ".join(offer.name if n == 1 else f"{n} x {offer.name}" for _, offer, n in units),
        tuple(change for _, offer, n in units for unit in range(n) for change in _unit(offer, unit)),
        cost(plan, counts),
        tuple(k for k, _, n in units for _ in range(n)),
        sum(n * (offer.processors or 0) for _, offer, n in units),
        schedulers=tuple(offer.scheduler for _, offer, _ in units if offer.scheduler is not None),
    )


def _unit(offer: OfferTable, unit: int) -> Iterator[NotionalTable]:
    """The changes of one unit of an offer; from the second on, the names of its clusters get its number."""
    for change in offer.changes:
        if unit == 0 or change.add is None:
            yield change
        else:
            add = re.sub(r" as cluster (\S+)", rf" as cluster \1-{unit + 1}", change.add)
            yield change.model_copy(update={"add": add})


def cost(plan: Plan, counts: Counts) -> float:
    """The cost of these counts, with running costs."""
    return sum(n * plan.cost(offer) for n, offer in zip(counts, plan.offers, strict=False))


def is_affordable(plan: Plan, counts: Counts) -> bool:
    """Whether counts are within the limits of the offers and the budget."""
    assert plan.budget is not None
    is_possible = all(0 <= n <= offer.limit for n, offer in zip(counts, plan.offers, strict=False))
    return is_possible and cost(plan, counts) <= plan.budget * (1 + 1e-12)


def affordable(plan: Plan) -> list[Counts]:
    """All affordable combinations, the empty one among them. Raises InvalidFile."""
    memory = Memory(f"all that a budget of {plan.budget:,g} buys")
    found: list[Counts] = []

    def add(chosen: Counts) -> None:
        """Add the combinations that begin with `chosen`."""
        if len(chosen) == len(plan.offers):
            memory.take(BYTES_OF_A_COMBINATION)
            found.append(chosen)
            return
        count = 0
        while is_affordable(plan, (*chosen, count)):
            add((*chosen, count))
            count += 1

    add(())
    return found


def retirements(table: RetireTable, in_use: SiteInUse) -> list[Option]:
    """One per kind of machine (class and clusters; of nodes, class and partitions): its last `count` machines
    go."""
    layout, file = in_use.layout, in_use.file
    sets = [(of.name, of.members) for of in file.clusters]
    if in_use.has_nodes:
        sets = [(of.name, of.nodes) for of in file.partitions]
    places: dict[str, list[str]] = {name: [] for name in layout.machines}
    for place, names in sets:
        for name in names:
            places[name].append(place)
    kinds: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, k in zip(layout.machines, layout.class_of_machine, strict=True):
        kinds.setdefault((layout.machine_classes[k], tuple(places[name])), []).append(name)
    options = []
    for (machine_class, of), machines in kinds.items():
        is_meant = not table.machine_classes or machine_class in table.machine_classes
        if is_meant and len(machines) >= table.count:
            where = "".join(f" of {place}" for place in of)
            if in_use.has_nodes:
                where = f" of {', '.join(of)}" if of else " of no partition"
            changes = tuple(NotionalTable(remove=machine) for machine in machines[-table.count :])
            options.append(Option(f"without {table.count} x {machine_class}{where}", changes))
    return options
