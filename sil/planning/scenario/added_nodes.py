"""The nodes that offers add, and the partitions that these join, so that a reader sees who may use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from scheduler import counted, plural
from sil.planning.options import AS_IT_IS, Option
from sil.planning.scenario.on_site import OnSite
from site_db.site_file.tables import SiteFile


def added_nodes(site: OnSite, offers: Sequence[Option]) -> Iterator[str]:
    """A sentence for each kind of nodes that an offer adds; none where the site has no partitions."""
    today = site.in_use(AS_IT_IS)
    if not today.has_nodes:
        return
    before = _kinds(today.file)
    for option in offers:
        after = _kinds(site.in_use(option).file)
        added = Counter(kind for name, kind in after.items() if name not in before)
        for (machine_class, partitions), n in added.items():
            where = f"{plural(len(partitions), 'partition')} {' and '.join(partitions)}"
            yield f"'{option.name}' adds {counted(n, 'node')} of class {machine_class} to {where}"


def _kinds(file: SiteFile) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The class and the partitions of each node."""
    partitions = [(table.name, frozenset(table.nodes)) for table in file.partitions]
    return {
        name: (group.machine_class, tuple(place for place, nodes in partitions if name in nodes))
        for group in file.machines
        for name in group.names
    }
