"""What jobs of accounting requested and had, of which nodes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter

from site_db.files.formats import whole
from site_db.files.input_errors import MAX_VALUE
from site_db.jobs.logged import MAX_PROCESSORS, Refused
from site_db.jobs.sacct.columns import UNKNOWN
from site_db.jobs.sacct.rows import Fields, printable
from site_db.site_file import machine_names
from site_db.slurm.output import BadTres, Tres, amount_of, memory_mib, tres_of

_OF_NODES = ("allocnodes", "nnodes", "reqnodes")
_ABOUT_RESOURCES = ("reqtres", "alloctres", "reqcpus", "alloccpus", "ncpus", "reqmem", *_OF_NODES)
"""The columns from which what a job requested is read."""
_about_resources = itemgetter(*_ABOUT_RESOURCES)
_about_processors = itemgetter("alloccpus", "ncpus", "alloctres", "reqcpus", "reqtres")


def resources_of(row: Fields, n_nodes: int) -> Tres:
    """What a job on this number of nodes requested; what it was allocated, where the log does not say. Raises
    Refused."""
    found, is_unclear = _resources(_about_resources(row), n_nodes)
    if is_unclear:
        row.repairs.append("the number of nodes cannot be read, taken from other columns")
    return found


def processors_of(row: Fields) -> int:
    if (found := _processors(*_about_processors(row))) is None:
        row.repairs.append("the number of processors is unknown, taken as 1")
    return found or 1


@lru_cache(16_384)
def _processors(alloc: str, n: str, alloc_tres: str, req: str, req_tres: str) -> int | None:
    """The first number that the columns state."""
    allocated, requested = tres_of(alloc_tres).cpus, tres_of(req_tres).cpus
    counts = (_count(alloc) or 0, _count(n) or 0, allocated, _count(req) or 0, requested)
    return next((found for found in counts if 1 <= found <= MAX_PROCESSORS), None)


@lru_cache(16_384)
def _resources(texts: tuple[str, ...], n_nodes: int) -> tuple[Tres, bool]:
    """What a job with these texts in the columns about resources requested; what it was allocated, where the
    log does not say; and whether a number of nodes cannot be read. It ran on `n_nodes`, if that is known."""
    row = dict(zip(_ABOUT_RESOURCES, texts, strict=True))
    try:
        requested, allocated = tres_of(row["reqtres"]), tres_of(row["alloctres"])
        cpus = requested.cpus or _first(row, "reqcpus") or allocated.cpus or _first(row, "alloccpus", "ncpus")
        counted = _first(row, *_OF_NODES)
        nodes = max(requested.nodes, allocated.nodes, counted, n_nodes, 1)
        # Memory like 4Gc is per CPU and 16Gn per node, as before Slurm 21.08.
        text = row["reqmem"] if row["reqmem"] not in ("0", "?") else ""
        times = {"c": cpus, "n": nodes}.get(text[-1:], 1)
        requested_mib = times * memory_mib(text.rstrip("cn")) if text and not requested.memory_mib else 0
        found = Tres(
            cpus=max(cpus, 1),
            nodes=nodes,
            memory_mib=requested.memory_mib or requested_mib or allocated.memory_mib,
            gpus=requested.gpus or allocated.gpus,
            others=requested.others or allocated.others,
            site_resources=requested.site_resources or allocated.site_resources,
        )
    except BadTres as error:
        raise Refused(f"its resources cannot be read: {printable(str(error))}") from None
    others = *found.others.values(), *found.site_resources.values(), found.memory_mib
    if max(found.cpus, found.nodes, found.n_gpus) > MAX_PROCESSORS or max(others) >= MAX_VALUE:
        raise Refused("its resources cannot be read: more than any cluster has")
    return found, any(_count(row[name]) is None for name in _OF_NODES)


def _first(row: Mapping[str, str], *names: str) -> int:
    """The first of these columns that has a number; 0 without any."""
    return next((n for name in names if (n := _count(row[name]))), 0)


@lru_cache(4_096)
def _count(text: str) -> int | None:
    """The number of a text like 4, 4.0 or 2K, which `sacct` prints for 2048; 0 where it is unknown, and None
    for other texts."""
    if text == "?" or text.lower() in UNKNOWN:
        return 0
    if (found := whole(text)) is None:
        with suppress(BadTres):
            return amount_of(text, text)
    return found


def nodes_of(row: Fields) -> tuple[str, ...]:
    text = row["nodelist"]
    if text.lower() in UNKNOWN:
        return ()
    try:
        # Longer lists are few; to remember many of them would take much memory.
        return _names(text) if len(text) <= 100 else _names.__wrapped__(text)
    except ValueError:
        row.repairs.append("the list of nodes cannot be read, taken as none")
        return ()


@lru_cache(1_024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(machine_names.expand(machine_names.patterns(text)))
