"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2: reading.

<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from pathlib import Path

import numpy as np
import polars as pl

from scheduler.core.arrays import Ints
from scheduler.messages import counted
from scheduler.node_request import Request
from sil.trace.log_ids import LOG_ID
from sil.workload.core.swf_rows import read_rows
from sil.workload.job_log import MAX_PROCESSORS, SCHEMA, JobLog, possible_size
from sil.workload.mapped_columns import ColumnFiles
from sil.workload.settings import Rules
from sil.workload.swf_repairs import LINE, NEEDED, memory_kib, repaired, table_of
from sil.workload.swf_writing import TITLES, KeptSwf
from site_db.files import access
from site_db.files.input_errors import InvalidFile, quoted, remedy
from site_db.jobs.logged import Charged
from site_db.jobs.swf import (
    FEW_FIELDS,
    FIELDS,
    MORE_FIELDS,
    NO_NUMBER,
    Status,
    header_field,
    of_preceding,
    rows_of,
)
from site_db.site_file.cluster import SiteNodes


def read_swf(
    path: Path,
    rules: Rules | None = None,
    processors: int | None = None,
    cluster: SiteNodes | None = None,
    keep: bool = False,
) -> JobLog:
    """The jobs of a log, repaired by `rules` or, if these are strict, refused.

    The machine has `processors`, else the header's MaxProcs, else MaxNodes. On a `cluster`, a job requests
    tasks of one core, anywhere, each with the memory that the job requested (field 10), else used (7); under
    a policy, groups (13) are accounts. A cluster without nodes is one node of the machine's size.
    With `keep`, the log keeps all fields and comments, to be written again. Raises InvalidFile with file,
    line and reason for an invalid file, and for a machine of unknown or impossible size.
    """
    rules = rules or Rules()
    if cluster is None and not keep and not rules.closed_loop:
        clean = _long_clean_log(path, rules, processors)
        if clean is not None:
            return clean
    data = access.read_bytes(path, EACH).removeprefix(BOM_UTF8)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    comments = list(_comments(data))
    header = dict(reversed(comments))
    rows = _plain_rows(data, FIELDS if keep or rules.closed_loop else (*NEEDED, "group"))
    broken: dict[str, list[int]] = {}
    if rows is None:
        rows, broken = _any_rows(data, path)
    has_nodes = cluster is not None and bool(cluster.nodes)
    size = cluster.cores if cluster and has_nodes else _machine_size(path, header, processors)
    found = repaired(rows, broken, size, rules, path)
    named = rows.filter(pl.col("preceding") > 0).select("job", "preceding", LINE, place=LINE)
    first = rows.filter(pl.col("job").is_in(named["preceding"].implode())).group_by("job").agg(pl.min(LINE))
    some_are_left_out = len(named) and len(found.rows) < len(rows)
    kept = frozenset(rows.join(found.rows, on=LINE, how="semi")["job"]) if some_are_left_out else None
    notes = found.notes
    if not rules.closed_loop:
        notes = (*notes, *_of_preceding(named, dict(first.iter_rows()), kept))
    if processors is None and not has_nodes:
        notes = (*_other_sizes(comments), *notes)
    fields = None
    if keep:
        lines = (line.strip() for line in data.split(b"\n") if b";" in line)
        texts = tuple(line.decode("utf-8", "replace") for line in lines if line.startswith(b";"))
        fields = KeptSwf(found.rows.drop(LINE, LOG_ID, strict=False), texts)
    failed = _unsuccessful(found.rows)
    log = JobLog(path.name, found.jobs, size, header, notes, cut=found.cut, kept=fields, unsuccessful=failed)
    log = log if cluster is None else _as_tasks(log, found.rows, cluster.or_one_node(size))
    return _in_closed_loop(log, found.rows) if rules.closed_loop else log


def _in_closed_loop(log: JobLog, rows: pl.DataFrame) -> JobLog:
    """The log with each job that names an earlier one submitted after it. Other such jobs are noted."""
    submit_s = dict(log.jobs.select("job", "submit_s").iter_rows())
    after, others, seen = dict[int, tuple[int, float]](), 0, set[int]()
    for job, preceding, think_s in rows.select("job", "preceding", "think_time").iter_rows():
        if preceding in seen:
            after[int(job)] = int(preceding), max(think_s, 0.0)
            submit_s[int(job)] = submit_s[int(preceding)]
        others += preceding > 0 and preceding not in seen
        seen.add(int(job))
    jobs = log.jobs.with_columns(submit_s=pl.col("job").replace_strict(submit_s, return_dtype=pl.Float64))
    notes = [f"{counted(len(after), 'job')} submitted after the end of preceding ones, in a closed loop"]
    if others:
        notes.append(f"{counted(others, 'job')} with a preceding job on no earlier line: at their times")
    return replace(log, jobs=jobs.sort("submit_s", "job"), after=after, notes=(*log.notes, *notes))


def _unsuccessful(rows: pl.DataFrame) -> Ints:
    """The numbers of jobs that failed or were cancelled."""
    failed = rows.filter(pl.col("status").is_in([float(Status.FAILED), float(Status.CANCELLED)]))
    return failed["job"].cast(pl.Int64).to_numpy()


def _of_preceding(
    named: pl.DataFrame, first: Mapping[float, float], kept: frozenset[float] | None = None
) -> list[str]:
    """A sentence on the rows that name a preceding job, if there are any: their job, the preceding one, the
    line, and their place in the log."""
    if named.is_empty():
        return []
    n, line = len(named), named[LINE][0]
    who = f"line {line} names" if n == 1 else f"{n:,} lines, the first is line {line}, name"
    return [f"{who} {of_preceding(named.select('job', 'preceding', 'place').rows(), first, kept)}"]


def _long_clean_log(path: Path, rules: Rules, processors: int | None) -> JobLog | None:
    """A log with any number of jobs, of which few are in memory; None if it is short, if a row needs a repair
    or another place, if it cannot be used, or if there is no room for temporary files."""
    parts = access.parts(path, PART)
    data, more = next(parts, b""), next(parts, None)
    if more is None:
        return None
    try:
        return _clean_log(path, chain((data, more), parts), rules, processors)
    except OSError:
        return None


def _clean_log(path: Path, parts: Iterable[bytes], rules: Rules, processors: int | None) -> JobLog | None:
    comments: list[tuple[str, str]] = []
    sizes: set[int] = set()
    last_s, last_job, n_lines = -inf, -1, 0
    named, failed = [], list[Ints]()
    with ColumnFiles(SCHEMA) as columns:
        for data in parts:
            comments += _comments(data)
            rows = None if b"\r" in data or data.startswith(BOM_UTF8) else _plain_rows(data)
            if rows is None:
                return None
            try:
                sizes.add(size := _machine_size(path, dict(reversed(comments)), processors))
                found = repaired(rows, {}, size, rules, path)
            except InvalidFile:  # with the number of a line in this part
                return None
            jobs = found.jobs
            submit_s, job = jobs["submit_s"].to_numpy(), jobs["job"].to_numpy()
            in_order = submit_s[0] >= last_s and job[0] > last_job and (np.diff(job) > 0).all()
            if found.notes or not in_order or len(sizes) > 1:
                return None
            last_s, last_job = float(submit_s[-1]), int(job[-1])
            columns.add(jobs)
            failed.append(_unsuccessful(rows))
            here = rows.filter(pl.col("preceding") > 0)
            named.append(here.select("job", "preceding", pl.col(LINE) + n_lines))
            n_lines += data.count(b"\n")
        table, pages = columns.mapped()
    notes = () if processors is not None else tuple(_other_sizes(comments))
    all_named = pl.concat(named).with_columns(place="job")  # the numbers rise
    preceding = all_named["preceding"].unique()
    there = preceding.filter(preceding.is_in(table["job"].cast(pl.Float64).implode()))
    notes = (*notes, *_of_preceding(all_named, dict(zip(there, there, strict=True))))
    header = dict(reversed(comments))
    return JobLog(path.name, table, size, header, notes, pages=pages, unsuccessful=np.concatenate(failed))


def _as_tasks(log: JobLog, rows: pl.DataFrame, cluster: SiteNodes) -> JobLog:
    """The log with each processor as a task of one core; under a policy, with accounts."""
    mib = (memory_kib(rows) / 1024).ceil() if cluster.has_memory else pl.zeros(len(rows))
    mib = mib.cast(pl.Int64)
    requested = log.jobs.select("processors", memory_mib=mib)
    different = requested.unique(maintain_order=True).with_row_index("request")
    which = requested.join(different, on=requested.columns, how="left", maintain_order="left")
    requests = tuple(
        Request(chunks=chunks, memory_mib=mib, most_on_node=None) for _, chunks, mib in different.iter_rows()
    )
    jobs, charged = log.jobs.with_columns(which["request"].cast(pl.Int64)), tuple[Charged, ...]()
    if cluster.policy is not None:
        groups = rows["group"].unique().sort()
        charged = tuple(Charged(f"group-{n:.0f}" if n >= 0 else "", "") for n in groups)
        jobs = jobs.with_columns(charged=groups.search_sorted(rows["group"]).cast(pl.Int64))
    return replace(log, jobs=jobs, cluster=cluster, requests=requests, charged=charged)


PROCESSORS = ("--processors", "")
EACH = 32.0
"""The memory, in bytes, that a byte of a log takes which is read as a whole because a row of it needs a
repair."""
PART = 2**23
"""The number of bytes of a longer log that are in memory at a time."""


def _comments(data: bytes) -> Iterator[tuple[str, str]]:
    """The `; Key: value` comments, in order; keys are in lower case."""
    at = data.find(b";")
    while at >= 0:
        begins, ends = data.rfind(b"\n", 0, at) + 1, data.find(b"\n", at)
        ends = len(data) if ends < 0 else ends
        field = header_field(data[begins:ends].decode("utf-8", "replace"))
        if field is not None:
            yield field
        at = data.find(b";", ends)


def _other_sizes(comments: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A sentence for each key of the machine's size that has several values."""
    for key in ("maxprocs", "maxnodes"):
        sizes = dict.fromkeys(value for name, value in comments if name == key)
        if len(sizes) > 1:
            first, other, *_ = map(quoted, sizes)
            yield f"the header gives {TITLES[key]} as {first} and as {other}; the first is used"


def _machine_size(path: Path, header: Mapping[str, str], asked: int | None) -> int:
    if asked is not None:
        return possible_size(asked, path)
    for key in ("maxprocs", "maxnodes"):
        match = re.match(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?![\w.,])", header.get(key, ""), re.ASCII)
        digits = match[0].replace(",", "").lstrip("0") if match else ""
        if len(digits) > len(str(MAX_PROCESSORS)) or int(digits or 0) > MAX_PROCESSORS:
            raise InvalidFile(
                f"{path}: the header says that the machine has {quoted(digits)} processors; at most "
                f"{MAX_PROCESSORS:,} are possible here{remedy('; give the number with {}', PROCESSORS)}"
            )
        if digits:
            return int(digits)
    named = [key for key in ("MaxProcs", "MaxNodes") if key.lower() in header]
    found = " and ".join(f"{key} is {quoted(header[key.lower()])}" for key in named)
    found = found or "MaxProcs or MaxNodes"
    raise InvalidFile(
        f"{path}: the header does not say how large the machine is ({found}); "
        f"{remedy('give it with {}', PROCESSORS) or 'add a line like: ; MaxProcs: 128'}"
    )


def _plain_rows(data: bytes, wanted: Sequence[str] = NEEDED) -> pl.DataFrame | None:
    """The rows, with the fields that are wanted, of a log whose numbers are all in plain decimal notation;
    else None.

    None has more digits than a number may have, so that the other fields need no repair.
    """
    most = data.count(b"\n") + 1
    lines, values = np.empty(most, np.int64), np.empty((len(wanted), most))
    columns = np.array([wanted.index(name) if name in wanted else -1 for name in FIELDS])
    n = read_rows(data, columns, lines, values)
    if n < 1:
        return None
    # Copies, since one column of a log would keep all values in memory.
    rows = pl.DataFrame({name: column[:n].copy() for name, column in zip(wanted, values, strict=True)})
    return rows.with_columns(pl.Series(LINE, lines[:n], pl.UInt32))


def _any_rows(data: bytes, path: Path) -> tuple[pl.DataFrame, dict[str, list[int]]]:
    """The rows of any log, and the lines that are none, by what is wrong with them."""
    rows = table_of(rows_of(data.decode("utf-8", "replace").split("\n"), path))
    last = 0 if data.endswith(b"\n") else data.count(b"\n") + 1
    is_row = rows["wrong"].is_in(("", MORE_FIELDS))
    is_cut = ~is_row & (rows[LINE] == last)
    broken = {"the last line is cut off": rows.filter(is_cut)[LINE].to_list()}
    for wrong in (FEW_FIELDS, NO_NUMBER, MORE_FIELDS):
        broken[wrong] = rows.filter(~is_cut & (rows["wrong"] == wrong))[LINE].to_list()
    return rows.filter(is_row).select(LINE, *FIELDS, pl.col("id").alias(LOG_ID)), broken
