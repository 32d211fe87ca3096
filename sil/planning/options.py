"""What could be done: an option is a set of changes of the site, and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sil.planning.plan_file import OfferTable, Plan
from sil.settings.notional import NotionalTable

TODAY = "as it is"


@dataclass(frozen=True)
class Option:
    """`offers` are the places of its offers in the plan, one for each time that one is bought."""

    name: str
    changes: tuple[NotionalTable, ...] = ()
    cost: float = 0.0
    offers: tuple[int, ...] = ()
    processors: int = 0
    """More of them, on the machine of a log."""


AS_IT_IS = Option(TODAY)


def one_of_each(plan: Plan) -> list[Option]:
    """Each offer alone, once."""
    return [bought(plan, {k: 1}) for k in range(len(plan.offers))]


def bought(plan: Plan, counts: Mapping[int, int]) -> Option:
    """So many of each offer (by its place in the plan)."""
    counts = {k: n for k, n in sorted(counts.items()) if n}
    if not counts:
        return AS_IT_IS
    changes = [
        change for k, n in counts.items() for unit in range(n) for change in _unit(plan.offers[k], unit)
    ]
    names = [plan.offers[k].name if n == 1 else f"{n} x {plan.offers[k].name}" for k, n in counts.items()]
    return Option(
        " + ".join(names),
        tuple(changes),
        sum(n * plan.cost(plan.offers[k]) for k, n in counts.items()),
        tuple(k for k, n in counts.items() for _ in range(n)),
        sum(n * (plan.offers[k].processors or 0) for k, n in counts.items()),
    )


def _unit(offer: OfferTable, unit: int) -> list[NotionalTable]:
    """The changes of one unit of an offer; a cluster in it has its number in its name, from the second on."""
    if unit == 0:
        return list(offer.changes)
    changes = []
    for change in offer.changes:
        text = change.add
        if text is not None:
            text = re.sub(r" as cluster (\S+)", rf" as cluster \1-{unit + 1}", text)
            change = change.model_copy(update={"add": text})
        changes.append(change)
    return changes
