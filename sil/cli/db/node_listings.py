"""Listings of a site of nodes: its partitions, what the nodes have, and resources of the whole site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from sil.cli.console import Column, Listing, Row, number, text
from site_db.sites import SiteReader


def has_nodes(reader: SiteReader) -> bool:
    """Whether the machines of a site are nodes of which jobs request parts."""
    return bool(reader.tables("partitions"))


def listings(reader: SiteReader) -> Iterator[Listing]:
    """Of a site of nodes; none of other sites."""
    if has_nodes(reader):
        yield partitions(reader)
    if reader.tables("site_resources"):
        yield site_resources(reader)


def partitions(reader: SiteReader) -> Listing:
    """The partitions, their limits, and what their nodes have in total."""
    machines = {machine["name"]: machine for machine in reader.tables("machines")}
    rows = [
        {
            "partition": partition["name"],
            "nodes": len(partition["nodes"]),
            **in_total(machines[name] for name in partition["nodes"]),
            **{key: partition[key] for key in ("max_time_s", "default_time_s", "max_nodes", "exclusive")},
        }
        for partition in reader.tables("partitions")
    ]
    columns = [
        text("partition"),
        number("nodes"),
        *columns_in_total(),
        _hours("max time (h)", "max_time_s"),
        _hours("default time (h)", "default_time_s"),
        number("max nodes"),
        Column("jobs take", lambda row: "whole nodes" if row["exclusive"] else "parts of nodes"),
    ]
    return Listing("partitions", "Partitions", columns, rows)


def site_resources(reader: SiteReader) -> Listing:
    """What the whole site has of countable resources, like licences."""
    rows = [{"resource": one["name"], "amount": one["amount"]} for one in reader.tables("site_resources")]
    columns = [text("resource"), number("amount")]
    return Listing("site_resources", "Resources of the whole site", columns, rows)


def in_total(machines: Iterable[Row]) -> Row:
    """CPUs, memory (None where no machine states it) and GPUs by type of all these machines."""
    cpus, memory_mb, gpus = 0, None, Counter[str]()
    for machine in machines:
        cpus += machine["processors"]
        gpus.update(machine["gpus"])
        if machine["memory_mb"] is not None:
            memory_mb = (memory_mb or 0.0) + machine["memory_mb"]
    return {"cpus": cpus, "memory_mb": memory_mb, "gpus": dict(sorted(gpus.items()))}


def columns_in_total() -> list[Column]:
    """The columns of `in_total`."""

    def gpus_of(row: Row) -> str:
        return ", ".join(f"{n:,} {gpu_type}" for gpu_type, n in row["gpus"].items())

    return [number("CPUs", "cpus"), number("memory (MB)", "memory_mb", ",.0f"), Column("GPUs", gpus_of)]


def _hours(title: str, key: str) -> Column:
    return Column(title, lambda row: "" if row[key] is None else f"{row[key] / 3600:,.4g}", is_number=True)
