"""The site file: a whole site in one TOML file, read and written."""

from __future__ import annotations

from pathlib import Path

import tomlkit

from scheduler import printable
from site_db.files import toml_file
from site_db.site_file import hostlist, validation
from site_db.site_file.relations import in_site_order
from site_db.site_file.tables import SiteFile


def read_site_file(path: Path) -> SiteFile:
    """The site in a TOML file, in site order. Raises InvalidFile with all its mistakes."""
    site = toml_file.read(path, SiteFile)
    if errors := [*validation.errors_of_file(site)]:
        raise toml_file.invalid(path, errors)
    return in_site_order(site)


def site_text(site: SiteFile) -> str:
    """The site as the text of a site file: reading it again gives an equal site."""
    data = site.model_dump(mode="json", exclude_defaults=True)
    for table, group in zip(data.get("machines", ()), site.machines, strict=True):
        table["names"] = hostlist.fold(group.names)
    for table, cluster in zip(data.get("clusters", ()), site.clusters, strict=True):
        table["members"] = hostlist.fold(cluster.members)
    for table, partition in zip(data.get("partitions", ()), site.partitions, strict=True):
        table["nodes"] = hostlist.fold(partition.nodes)
    return printable(tomlkit.dumps(data))  # escapes in strings, which tomlkit leaves out of many
