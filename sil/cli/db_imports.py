"""The database of a command of `sil db`, and imports into it: job logs, and the nodes of a cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from scheduler.messages import counted
from sil.cli import console
from sil.cli.options import TimeZone
from sil.cli.parameters import CommandOption
from site_db.jobs.sacct.columns import COMMAND_IN_LINES

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from site_db.jobs.logged import Tally
    from site_db.store import Address

Database = Annotated[
    str,
    CommandOption(
        name="--db", metavar="DATABASE#SITE", envvar="SIL_DATABASE", help="The database, and its site."
    ),
]
DEFAULT = "site.db"


@contextmanager
def opened(db: str, changing: bool = False) -> Iterator[tuple[Session, Address]]:
    """A session that sees one state of the database or, if `changing`, is committed at the end. Errors end
    the command with one sentence."""
    from site_db import sites, store

    address = store.parse_address(db)
    with sites.opened(address, changing) as session:
        yield session, address


@contextmanager
def at_site(db: str, changing: bool = False) -> Iterator[tuple[Session, Address, str]]:
    """As `opened`, with the name of the site in the address, or of the only one."""
    from site_db.sites import site_at

    with opened(db, changing) as (session, address):
        yield session, address, site_at(session, address)


HOW_TO_CREATE = f"""Create the log, of any time (-S, -E), with:

\b
{COMMAND_IN_LINES}"""
"""The end of the help of `import_sacct`, whose lines stay as they are (\\b)."""


def import_sacct(log: Path, db: Database = DEFAULT, time_zone: TimeZone = None) -> None:
    """Record the jobs of a Slurm accounting log.

    * `log`: Output of `sacct`, as below, or of `sacct --json`.

    Jobs request parts of the site's nodes, which come from slurm.conf (`sil db import-slurm-conf`); without
    it, the nodes of a new site are inferred from the jobs. A job class is (user, program, request). All jobs
    that used their nodes are recorded; only completed ones count for run times.
    """
    from site_db.files.formats import zone_named
    from site_db.jobs.accounting_import import import_accounting

    zone = zone_named(time_zone)
    _import_log(log, db, partial(import_accounting, zone=zone))


def import_swf(log: Path, db: Database = DEFAULT) -> None:
    """Record the jobs of an archive log.

    * `log`: A log in the Standard Workload Format; may be compressed.

    A job class is (user, program, processors). The format names no machines: runs count for a machine class
    with the name of the partition.
    """
    _import_log(log, db, _import_archive)


def import_slurm_conf(conf: Path, db: Database = DEFAULT) -> None:
    """Put the nodes and partitions of a Slurm cluster in place of those of the site, which may be new.

    * `conf`: slurm.conf, or the output of `scontrol show node` (or `sinfo -N --json`).

    Nodes of one specification are machines of one class. Job classes, history, queues and users stay. The
    output of `scontrol show node` lacks the limits of partitions; that of `scontrol show partition` may
    follow it.
    """
    from site_db.exchange import import_nodes

    with at_site(db, changing=True) as (session, address, site):
        imported = import_nodes(session, site, conf, time.time())
    state = "new" if imported.is_new else "updated"
    console.print_line(f"{address}: the site '{site}' is {state}: {imported.cluster}.")
    for line in imported.cluster.model:
        console.print_line(f"{line}.")
    for sentence in imported.notes:
        console.print_note(sentence)


def _import_archive(
    session: Session, site: str, log: Path, tally: Tally, now_unix_s: float
) -> tuple[int, list[str]]:
    from site_db.files.access import open_lines
    from site_db.jobs.log_import import JobsOnMachines, import_log, source_of
    from site_db.jobs.logged import up_to_now
    from site_db.jobs.records import SourceKind
    from site_db.jobs.swf import read_swf

    with open_lines(log) as lines:
        jobs = up_to_now(read_swf(lines, log, tally), log, now_unix_s)
        skipped, _ = import_log(session, site, source_of(SourceKind.SWF, log), jobs, JobsOnMachines)
    return skipped, [*tally.remarks()]


def _import_log(
    log: Path, db: str, import_jobs: Callable[[Session, str, Path, Tally, float], tuple[int, list[str]]]
) -> None:
    """Record the jobs of a log, and report what happened to its rows."""
    from site_db.jobs.log_import import count_members, count_things
    from site_db.jobs.logged import Tally

    tally = Tally()
    with at_site(db, changing=True) as (session, address, site):
        before, members_before = count_things(session, site), count_members(session, site)
        left_out, notes = import_jobs(session, site, log, tally, time.time())
        if not tally.used:
            reasons = "; ".join(_counts("", tally.refused, tally)) or "there are none"
            console.fail(f"{log}: none of its rows can be used: {reasons}")
        after, members = count_things(session, site), count_members(session, site)
    new = [counted(after[what] - before[what], what) for what in after if after[what] > before[what]]
    n = tally.used - left_out
    recorded = f"{n:,} of {counted(tally.rows, 'row')} of {log} {'is' if n == 1 else 'are'} recorded as jobs"
    console.print_line(f"{address}: {recorded}.")
    console.print_line(f"New at the site '{site}': {', '.join(new) or 'nothing'}.")
    for name, n in members_before.items():
        if members[name] > n:
            grown = f"the cluster '{name}' has {members[name]:,} members now, instead of {n:,}"
            notes.append(f"{grown}: runs of the partition of that name used other machines, too")
    for sentence in notes:
        console.print_note(sentence)
    if left_out:
        console.print_line(f"Left out: {left_out:,} (recorded before)")
    for sentence in (
        *_counts("Repaired: ", tally.repaired, tally),
        *_counts("Refused: ", tally.refused, tally),
    ):
        console.print_line(sentence)


def _counts(label: str, counts: Counter[str], tally: Tally) -> list[str]:
    """The number of rows, the reason, and the line of the first."""
    rows = counts.most_common()
    return [f"{label}{n:,} ({reason}; line {tally.first_line[reason]})" for reason, n in rows]
