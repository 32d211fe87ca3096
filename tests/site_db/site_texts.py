"""Site files for tests, what the reader says of bad ones, and what of them is in a database."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler.messages import printable
from scheduler.model import Cluster, Interconnect, JobClass, Machine, Site
from site_db.files.input_errors import InvalidFile
from site_db.jobs.records import LIVE, JobRecord, JobState
from site_db.jobs.writer import JobWriter
from site_db.schema import Base
from site_db.site_file import importing
from site_db.site_file.machine_names import slot_names
from site_db.site_file.tables import SiteFile

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

FULL = """# A site that says all that a site file can say.
name = "full"
description = "it has everything"
only_listed_users = true

[[machine_classes]]
name = "fast"
architecture = "x86"

[[machine_classes]]
name = "slow"

[[machines]]
names = ["f[01-04]"]
machine_class = "fast"
processors = 4
memory_mb = 2048
storage_gb = 80.5
os = "Linux"
rating = 2.5
interconnects = ["sci", "lan"]

[[machines]]
names = ["s[1-2]"]
machine_class = "slow"
rating = 1

[[machines]]
names = ["planned"]
machine_class = "slow"
notional = true

[[interconnects]]
name = "lan"
bandwidth_mbit_per_s = 100

[[interconnects]]
name = "sci"
bandwidth_mbit_per_s = 1280.5
latency_us = 10

[[clusters]]
name = "quad"
members = ["f04", "f[01-03]"]
interconnects = ["sci"]
least_share = 0.75

[clusters.social_contract]
share = 0.4
most_jobs = 2
most_cpu = 1.5

[[job_classes]]
name = "flow"
description = "fluid dynamics"
size = "cells"
network_mbit_per_s = 12.5
preferred = ["fast"]

[job_classes.sequential_s]
fast = 10

[job_classes.parallel_s]
quad = 4

[job_classes.commands]
slow = "flow --small"
fast = "flow {size}"

[job_classes.parallel_commands]
quad = "mpirun flow"

[job_classes.data]
input_mb = 5000.5
output_mb = 20
at = "archive"

[[job_classes.in_isolation]]
tasks = 4
exe_s = 5
cpu = 0.75
memory_mb = 64

[[job_classes.in_isolation]]
tasks = 2
exe_s = 8
cpu = 0.5
memory_mb = 0

[[queues]]
name = "day"
priority = 5
displaces = ["night"]

[[queues]]
name = "night"

[[users]]
name = "ann"
queues = ["night", "day"]
most_jobs = 3
highest_priority = 5

[[users.may_submit_as]]
user = "cy"
queues = ["night"]

[[users.may_submit_as]]
user = "bob"

[[users]]
name = "bob"
queues = []

[[users]]
name = "cy"
"""

NODES = """# A site of nodes that says all that such a site can say.
name = "nodes"

[topology]
leaves = ["leaf1", "leaf2"]
above = [[1, [0, 1]]]
is_optional = true
max_wait_s = 900.0

[[machine_classes]]
name = "cpu"

[[machine_classes]]
name = "gpu"

[[machines]]
names = ["n[01-04]"]
machine_class = "cpu"
processors = 64
threads_per_core = 2
memory_mb = 256000
features = ["ib", "avx512"]
switch = "leaf1"

[[machines]]
names = ["g1"]
machine_class = "gpu"
processors = 32
slots = 4
memory_mb = 512000
switch = "leaf2"

[machines.gpus]
h100 = 2
a100 = 4

[machines.resources]
scratch = 858993459200

[[partitions]]
name = "batch"
nodes = ["n[01-04]"]
max_time_s = 86400
default_time_s = 3600
max_nodes = 2

[[partitions]]
name = "whole"
nodes = ["g1", "n[03-04]"]
exclusive = true

[[site_resources]]
name = "matlab"
amount = 5

[[job_classes]]
name = "wide"

[job_classes.sequential_s]
cpu = 100

[job_classes.request]
nodes = 2
cores = 8
memory_mb_per_core = 4000.5
features = ["ib"]
partitions = ["whole", "batch"]
exclusive = true
time_limit_s = 7200

[[job_classes]]
name = "tasks"

[job_classes.sequential_s]
cpu = 10

[job_classes.request]
tasks = 128
cores = 0.5

[job_classes.request.site_resources]
matlab = 2

[[job_classes]]
name = "train"

[job_classes.sequential_s]
gpu = 50

[job_classes.request]
nodes = 1
total_gpus = 4
gpu_types = ["h100", "a100"]

[job_classes.request.resources]
scratch = 400000000000

[[job_classes]]
name = "infer"

[job_classes.sequential_s]
gpu = 5

[job_classes.request]
gpus = 1
gpu_share = 0.25

[[job_classes]]
name = "plain"

[job_classes.sequential_s]
cpu = 1
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


def refusal(
    text: str | bytes, folder: Path, read: Callable[[Path], object] = importing.read_site_file
) -> str:
    """What is said of a file with that text, after its path."""
    path = folder / "bad.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidFile) as caught:
        read(path)
    return after_path(caught.value, path)


def after_path(error: InvalidFile, path: Path) -> str:
    lines = str(error).split("\n")
    assert_has_a_plain_sentence_for_each_mistake(str(error))
    assert all(line.startswith(str(path)) for line in lines)
    return "\n".join(line.removeprefix(str(path)).lstrip(",: ") for line in lines)


JARGON = re.compile(
    r"[Ii]nput should be|pydantic|https://|datetime\.|tuple|a dict|dictionary|discriminator|validation error|"
    r"\[key\]|int\(\)"
)


def assert_has_a_plain_sentence_for_each_mistake(message: str) -> None:
    assert printable(message) == message
    assert not JARGON.search(message), message


def read(text: str, folder: Path) -> SiteFile:
    path = folder / "site.toml"
    path.write_text(text)
    return importing.read_site_file(path)


def site_of(file: SiteFile) -> Site:
    """The site that a site file stands for, with a machine for each slot; members and interconnects of a
    cluster are in site order."""
    slots = {name: slot_names(name, group.slots) for group in file.machines for name in group.names}
    machines = [
        Machine(slot, group.machine_class)
        for group in file.machines
        for name in group.names
        for slot in slots[name]
    ]
    interconnects = [Interconnect(x.name, x.bandwidth_mbit_per_s, x.latency_us) for x in file.interconnects]
    return Site(
        file.name,
        tuple(machines),
        tuple(
            Cluster(
                c.name,
                tuple(slot for name in slots if name in c.members for slot in slots[name]),
                tuple(x.name for x in interconnects if x.name in c.interconnects),
                c.least_share,
            )
            for c in file.clusters
        ),
        tuple(interconnects),
        tuple(
            JobClass(
                k.name,
                tuple(dict.fromkeys((*k.sequential_s, *k.commands))),
                tuple(dict.fromkeys((*k.parallel_s, *k.parallel_commands))),
                k.preferred,
            )
            for k in file.job_classes
        ),
    )


def a_run(resource: str | None, run_time_s: float = 20.0, **rest: Any) -> JobRecord:
    """A job of ann's that is done, unless the `rest` says otherwise."""
    usual = {"number": "1", "job_class": "short", "user": "ann", "queue": "day", "state": JobState.DONE}
    times = {"submitted_s": 0.0, "started_s": 5.0, "run_time_s": run_time_s}
    return JobRecord(**{**usual, **times, "resource": resource, **rest})


def record(session: Session, *jobs: JobRecord, site: str = "small") -> None:
    JobWriter(session, site).add(session, LIVE, jobs)


def dump(session: Session) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables. Two tables have ids that nothing refers to; these are left out."""
    session.flush()
    rows = {}
    for table in Base.metadata.sorted_tables:
        without_id = table.name in ("allowed_place", "submission_right")
        columns = [column for column in table.c if not (without_id and column.name == "id")]
        rows[table.name] = sorted((tuple(row) for row in session.execute(select(*columns))), key=repr)
    return rows


def of_lines(cases: str) -> dict[str, tuple[str, str, str]]:
    """Mistakes: a name, the text to be replaced, the mistake, and below what is said."""
    found = {}
    for case in re.split(r"\n(?=\S)", cases.strip()):
        (parts,) = re.findall(r"(.+?): (.+?)\s+-> (.+?)\n  (?! )(.+)", case.replace("\n    ", ""), re.DOTALL)
        name, *texts, sentence = parts
        old, new = (re.sub(r"(?<!\\)\\n", "\n", text).replace("\\\\", "\\") for text in texts)
        found[name] = old, new, sentence.replace("\n  ", " ")
    return found
