"""Site files for tests, and what the reader says of bad ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from site_db import exchange
from site_db.exchange import SiteFile
from site_db.toml_file import InvalidFile

HCS_2001 = Path(__file__).parents[2] / "fixtures" / "sites" / "hcs-2001.toml"

SMALL = """# A site that has one of everything.
name = "small"

[[machine_classes]]
name = "fast"
architecture = "x86"

[[machine_classes]]
name = "slow"

[[machines]]
names = ["f[1-2]"]
machine_class = "fast"

[[machines]]
names = ["s[1-2]", "odd"]
machine_class = "slow"

[[interconnects]]
name = "lan"
bandwidth_mbit_per_s = 100

[[interconnects]]
name = "sci"
bandwidth_mbit_per_s = 1280.5
latency_us = 10

[[clusters]]
name = "pair"
members = ["f1", "f2"]
interconnects = ["lan", "sci"]

[[clusters]]
name = "mixed"
members = ["f2", "s[1-2]"]
least_share = 0.5

[[job_classes]]
name = "short"
description = "seconds"
preferred = ["slow", "fast"]

[job_classes.sequential_s]
fast = 10
slow = 30.5

[job_classes.parallel_s]
pair = 6
mixed = 9

[[job_classes]]
name = "long"

[job_classes.sequential_s]
fast = 100

[[job_classes]]
name = "wide"

[job_classes.parallel_s]
mixed = 77

[[queues]]
name = "day"
priority = 2
users = ["ann", "bob"]
displaces = ["night"]
scheduler = "mct"

[[queues]]
name = "night"
mapping = "remap"

[[queues]]
name = "closed"
users = []
"""

HERE = "# HERE"
"""Stands in bad texts on the line that must be blamed."""


def changed(old: str, new: str, text: str = SMALL) -> str:
    """`text` with the one place where `old` stands replaced."""
    assert text.count(old) == 1, f"{old!r} stands in the text {text.count(old)} times"
    return text.replace(old, new)


def blamed_line(text: str) -> int:
    (line,) = [number for number, line in enumerate(text.split("\n"), start=1) if HERE in line]
    return line


def refusal(text: str | bytes, folder: Path, read: Callable[[Path], object] = exchange.read_site_file) -> str:
    """What is said of a file with that text, after its path."""
    path = folder / "bad.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidFile) as caught:
        read(path)
    return after_path(caught.value, path)


def after_path(error: InvalidFile, path: Path) -> str:
    message = str(error)
    assert_is_one_plain_sentence(message)
    assert message.startswith(str(path))
    return message.removeprefix(str(path)).lstrip(",: ")


def assert_is_one_plain_sentence(message: str) -> None:
    assert message.isprintable()
    for jargon in (
        "Input should be",
        "input should be",
        "pydantic",
        "https://",
        "datetime.",
        "tuple",
        "dict",
        "discriminator",
        "validation error",
        "[key]",
        "int()",
    ):
        assert jargon not in message, message


def read(text: str, folder: Path) -> SiteFile:
    path = folder / "site.toml"
    path.write_text(text)
    return exchange.read_site_file(path)


def site_of(file: SiteFile) -> Site:
    """The site that a site file stands for; members and interconnects of a cluster are in site order."""
    machines = [Machine(name, group.machine_class) for group in file.machines for name in group.names]
    interconnects = [Interconnect(x.name, x.bandwidth_mbit_per_s, x.latency_us) for x in file.interconnects]
    return Site(
        file.name,
        tuple(machines),
        tuple(
            Cluster(
                c.name,
                tuple(m.name for m in machines if m.name in c.members),
                tuple(x.name for x in interconnects if x.name in c.interconnects),
                c.least_share,
            )
            for c in file.clusters
        ),
        tuple(interconnects),
        tuple(
            JobClass(k.name, tuple(k.sequential_s), tuple(k.parallel_s), k.preferred)
            for k in file.job_classes
        ),
    )
