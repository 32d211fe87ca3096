"""What-if changes of nodes: what they have, and the partitions in which they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

from sil.settings.notional import HAPPENS, OF_CLUSTERS, OF_NODES, SPECIFICATION, NotionalTable
from sil.site.what_if_site import InapplicableChange, WhatIfSite
from site_db.site_file.tables import MachinesTable


def check_keys(site: WhatIfSite, change: NotionalTable) -> None:
    """Raises InapplicableChange for keys that mean nothing at this site: of nodes, or of clusters."""
    if site.has_nodes:
        if change.verb == "add" and change.parsed().cluster is not None:
            raise InapplicableChange("jobs on nodes use no clusters; leave out 'as cluster NAME'")
        for key in sorted(change.given & OF_CLUSTERS):
            raise InapplicableChange(f"jobs on nodes use no clusters; leave out '{key}'")
        return
    for key in sorted(change.given & OF_NODES):
        raise InapplicableChange(
            f"'{key}' is of nodes that jobs share, and the site has no partitions; leave it out"
        )
    if change.verb == "upgrade" and change.memory_mb is not None:
        raise InapplicableChange(
            f"'memory_mb' has no effect when machines {HAPPENS['upgrade']}; leave it out"
        )


def specification(site: WhatIfSite, machine_class: str, change: NotionalTable) -> dict[str, Any]:
    """What the nodes of a class have: what the change says, else what the machines of the class have.

    A key that is neither said nor known is left out. Without nodes, only the memory counts. Raises
    InapplicableChange where the machines of the class differ.
    """
    if not site.has_nodes:
        return {"memory_mb": change.memory_mb} if change.verb == "add" else {}
    there = [site.machines[name] for name in site.of_class(machine_class)]
    found = {}
    for key in SPECIFICATION:
        if key in change.given:
            found[key] = getattr(change, key)
        elif there:
            found[key] = getattr(there[0], key)
            if any(getattr(table, key) != found[key] for table in there):
                raise InapplicableChange(
                    f"the machines of class '{machine_class}' differ in {key}; give {key}"
                )
    return found


def check_new_nodes(
    site: WhatIfSite, machine_class: str, change: NotionalTable, said: Collection[str]
) -> None:
    """Raises InapplicableChange where it is unknown what nodes of a class without machines have."""
    if not site.has_nodes or site.of_class(machine_class):
        return
    counts_memory = any(table.memory_mb is not None for table in site.machines.values())
    needed = ["processors", *(["memory_mb"] if counts_memory else [])]
    missing = [key for key in needed if key not in said]
    if missing:
        close = get_close_matches(machine_class, {m.machine_class for m in site.machines.values()}, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        raise InapplicableChange(
            f"the site has no machines of class '{machine_class}'{hint}; say what new ones have: "
            f"{' and '.join(missing)}, as {_example(site, change)}"
        )


def partitions_of_new(site: WhatIfSite, machine_class: str, change: NotionalTable) -> Sequence[str]:
    """Those that the change names, else those of the machines of the class. Raises InapplicableChange if
    there are none, or if these machines are in different ones."""
    if not site.has_nodes:
        return ()
    for name in change.partitions:
        site.check_known("partition", name, site.partitions)
    if change.partitions:
        return change.partitions
    members = {name: set(table.nodes) for name, table in site.partitions.items()}
    there = Counter(
        tuple(name for name, nodes in members.items() if machine in nodes)
        for machine in site.present_of_class(machine_class)
    )
    if len(there) > 1:
        where = "; ".join(f"{n:,} in {' and '.join(names) or 'none'}" for names, n in there.items())
        raise InapplicableChange(
            f"the machines of class '{machine_class}' are in different partitions ({where}); give the "
            f"partitions of the new nodes, as partitions = {_list(max(there, key=len))}"
        )
    (common,) = there or [()]
    if not common:
        raise InapplicableChange(
            f"no partition has machines of class '{machine_class}'; give the partitions of the new nodes, of "
            f"{', '.join(site.partitions)}, as partitions = {_list([next(iter(site.partitions))])}"
        )
    return common


def _example(site: WhatIfSite, change: NotionalTable) -> str:
    """The change with all that new nodes need: its own values, and for the rest those of other nodes, which
    have GPUs if any node has."""
    name, like = max(site.machines.items(), key=lambda one: bool(one[1].gpus))
    places = [place for place, table in site.partitions.items() if name in table.nodes]
    gpus = change.gpus or like.gpus
    parts = [f'add = "{change.add}"', f"processors = {change.processors or like.processors}"]
    memory_mb = change.memory_mb or like.memory_mb
    parts += [f"memory_mb = {memory_mb:.0f}"] if memory_mb is not None else []
    parts += [f"gpus = {{ {', '.join(f'{of} = {n}' for of, n in gpus.items())} }}"] if gpus else []
    parts += [f"partitions = {_list(change.partitions or places)}"]
    return "{ " + ", ".join(parts) + " }"


def _list(names: Sequence[str]) -> str:
    """As in TOML."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


def join(site: WhatIfSite, names: Sequence[str], partitions: Sequence[str]) -> None:
    for name in partitions:
        table = site.partitions[name]
        site.partitions[name] = table.model_copy(update={"nodes": (*table.nodes, *names)})


def leave(site: WhatIfSite, names: Collection[str]) -> None:
    """Removed nodes leave all partitions."""
    for name, table in site.partitions.items():
        left = tuple(node for node in table.nodes if node not in names)
        if len(left) < len(table.nodes):
            site.partitions[name] = table.model_copy(update={"nodes": left})


def with_more_memory(table: MachinesTable, more_mb: float) -> float:
    """Raises InapplicableChange where it is unknown how much there is."""
    if table.memory_mb is None:
        raise InapplicableChange(
            f"more_memory_mb is {more_mb:g}, but the site does not say what memory these machines have; give "
            f"memory_mb"
        )
    return table.memory_mb + more_mb
