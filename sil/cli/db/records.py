"""`sil db`: completed runs, shown and recorded from logs and CSV files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sil.cli.console import JsonOption, counted, fail, out, print_note
from sil.cli.db.opened import DEFAULT, Where, changing, reading, site_of

if TYPE_CHECKING:
    from site_db.jobs.logs.logged_job import LoggedJob, Tally
    from site_db.jobs.records import SourceKind

    LogReader = Callable[[Iterable[str], Path, Tally], Iterator[LoggedJob]]


def history(
    db: Where = DEFAULT,
    last: Annotated[int, typer.Option(min=1, help="Number of latest runs to show.")] = 20,
    import_file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Record the jobs of a CSV file: one that an experiment wrote because it could not reach the "
            "database, or one with the columns job_class, resource, started_unix_s, run_time_s.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the latest completed runs, or record those of a CSV file."""
    if import_file is not None:
        _import_csv(import_file, db)
        return
    from sil.cli.db.experience_listings import latest_runs
    from sil.cli.db.listing import print_listings

    with reading(db) as (session, address):
        listing = latest_runs(session, site_of(session, address), last)
    print_listings([listing], as_json)


def import_sacct(
    log: Annotated[Path, typer.Argument(help="Output of `sacct -P -X -o ...`; may be gzipped.")],
    db: Where = DEFAULT,
) -> None:
    """Record the jobs of a Slurm accounting log.

    Create the log with: sacct -a -P -X -S 2026-01-01 -E now -o
    JobID,User,JobName,Partition,AllocCPUS,NodeList,Submit,Start,End,Elapsed,TimelimitRaw,State

    A job class is (user, program, processors). Missing nodes, clusters (partitions) and the site itself are
    added.
    """
    from site_db.jobs.logs.sacct import read_sacct
    from site_db.jobs.records import SourceKind

    _import_log(log, db, SourceKind.SACCT, read_sacct)


def import_swf(
    log: Annotated[Path, typer.Argument(help="A log in the Standard Workload Format; may be gzipped.")],
    db: Where = DEFAULT,
) -> None:
    """Record the jobs of an archive log.

    A job class is (user, program, processors). The format names no machines: runs count for a machine class
    with the name of the partition.
    """
    from site_db.jobs.logs.swf import read_swf
    from site_db.jobs.records import SourceKind

    _import_log(log, db, SourceKind.SWF, read_swf)


def _import_csv(path: Path, db: str) -> None:
    from site_db.jobs.csv_file import import_file

    with changing(db) as (session, address):
        n, left_out = import_file(session, site_of(session, address), path, time.time())
    out.print(f"{address}: {counted(n, 'job')} of {path} recorded", soft_wrap=True)
    if left_out:
        out.print(f"Left out: {counted(left_out, 'job')} that the site already has", soft_wrap=True)


def _import_log(log: Path, db: str, kind: SourceKind, read: LogReader) -> None:
    """Record the jobs of a log, and report what happened to its rows."""
    from site_db.jobs.log_import import count_members, count_things, import_log
    from site_db.jobs.logs.log_file import open_log
    from site_db.jobs.logs.logged_job import Tally, up_to_now

    tally = Tally()
    with changing(db) as (session, address), open_log(log) as lines:
        site = site_of(session, address)
        before, members_before = count_things(session, site), count_members(session, site)
        left_out = import_log(session, site, kind, log, up_to_now(read(lines, log, tally), log, time.time()))
        if not tally.used:
            reasons = "; ".join(_counts(tally.refused, tally)) or "there are none"
            fail(f"{log}: none of its rows can be used: {reasons}")
        after, members = count_things(session, site), count_members(session, site)
    new = [counted(after[what] - before[what], what) for what in after if after[what] > before[what]]
    out.print(
        f"{address}: {tally.used - left_out:,} of {tally.rows:,} rows of {log} are recorded as runs.",
        soft_wrap=True,
    )
    out.print(f"New at the site '{site}': {', '.join(new) or 'nothing'}.", soft_wrap=True)
    for name, n in members_before.items():
        if members[name] > n:
            grown = f"the cluster '{name}' has {members[name]:,} members now, instead of {n:,}"
            print_note(f"{grown}: runs of the partition of that name used other machines, too")
    if left_out:
        out.print(f"Left out: {left_out:,} (recorded before)", highlight=False)
    for what, counts in (("Repaired", tally.repaired), ("Refused", tally.refused)):
        for sentence in _counts(counts, tally):
            out.print(f"{what}: {sentence}", soft_wrap=True, highlight=False)


def _counts(counts: Counter[str], tally: Tally) -> list[str]:
    """The number of rows, the reason, and the line of the first."""
    return [f"{n:,} ({reason}; line {tally.first_line[reason]})" for reason, n in counts.most_common()]
