"""`sil db`: the database of a site, kept from the command line."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sil.cli.console import counted, fail, one_sentence_for_bad_input, out, print_note, print_whole

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from site_db.jobs.logs.logged_job import LoggedJob, Tally
    from site_db.jobs.records import SourceKind
    from site_db.store import Address

    LogReader = Callable[[Iterable[str], Path, Tally], Iterator[LoggedJob]]

app = typer.Typer(
    no_args_is_help=True,
    help="""The database of a site: its machines, users and job classes, and how long jobs take.

    All commands take `--db`, an SQLite file or the address of a PostgreSQL database, with `#SITE`
    behind it where the database has more than one site: `site.db`, `site.db#hcs-2001`,
    `postgresql://user@host/database#hcs-2001`. Without it, SIL_DATABASE in the environment counts, else
    the file site.db.
    """,
)

Where = Annotated[
    str,
    typer.Option("--db", metavar="DATABASE#SITE", envvar="SIL_DATABASE", help="Which database, and site."),
]
DEFAULT = "site.db"


class UpOrDown(StrEnum):
    UP = "up"
    DOWN = "down"


@app.command()
def init(db: Where = DEFAULT) -> None:
    """Make a new, empty database."""
    from site_db import store

    with one_sentence_for_bad_input():
        address = store.parse_address(db)
        store.create(address).dispose()
    out.print(f"{address}: a new database; put a site into it with: sil db import SITE.toml", soft_wrap=True)


@app.command("import")
def import_site(
    site: Annotated[str, typer.Argument(help="A site file, or the name of a built-in one.")],
    db: Where = DEFAULT,
) -> None:
    """Put the site of a site file into the database, or bring the one there up to date with it."""
    from sil.settings import files
    from site_db.jobs.log_import import count_things
    from site_db.site_file.exchange import read_site_file
    from site_db.site_file.importing import put_file
    from site_db.sites import site_names

    with _changing(db) as (session, address):
        path = files.find(site, "sites", Path())
        file = read_site_file(path)
        there = site_names(session)
        put_file(session, file, path)
        counts = [counted(n, what) for what, n in count_things(session, file.name).items()]
    done = "is now as its file says" if file.name in there else "is new"
    out.print(f"{address}: the site '{file.name}' {done}: {', '.join(counts)}", soft_wrap=True)


@app.command()
def export(
    db: Where = DEFAULT,
    out_file: Annotated[Path | None, typer.Option("--out", help="Write it to this file.")] = None,
) -> None:
    """Print a site as a site file."""
    from site_db.site_file import exchange
    from site_db.sites import SiteReader

    with _reading(db) as (session, address):
        text = exchange.site_text(SiteReader(session, _site(session, address)).as_file())
        if out_file is not None:
            _write(out_file, text)
    if out_file is None:
        print(text, end="")


@app.command()
def show(
    db: Where = DEFAULT,
    job_class: Annotated[
        str | None, typer.Option(help="Tell all that is known of this job class, machine by machine.")
    ] = None,
) -> None:
    """Show the sites, or one site: machines, clusters and their states, queues, users, expected times."""

    from sil.cli import site_tables
    from site_db.sites import site_names

    with _reading(db) as (session, address):
        names = site_names(session)
        if address.site is None and len(names) != 1:
            tables = [site_tables.sites(session)]
        elif job_class is None:
            tables = site_tables.whole_site(session, address.site or names[0])
        else:
            tables = site_tables.one_job_class(session, address.site or names[0], job_class)
    for table in tables:
        print_whole(table)


@app.command()
def history(
    db: Where = DEFAULT,
    last: Annotated[int, typer.Option(min=1, help="How many runs to show, the latest ones.")] = 20,
    import_file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            help="Record the jobs of a CSV file, as an experiment leaves one that could not "
            "reach the database, or with the columns job_class, resource, started_unix_s, run_time_s.",
        ),
    ] = None,
) -> None:
    """Show the latest whole runs, or record those of a file."""
    from sil.cli import site_tables
    from site_db.jobs.csv_file import import_file as import_csv

    if import_file is None:
        with _reading(db) as (session, address):
            table = site_tables.latest_runs(session, _site(session, address), last)
        print_whole(table)
        return
    with _changing(db) as (session, address):
        n, left_out = import_csv(session, _site(session, address), import_file, time.time())
    out.print(f"{address}: {counted(n, 'job')} of {import_file} recorded", soft_wrap=True)
    if left_out:
        out.print(f"Left out: {counted(left_out, 'job')} that the site has already", soft_wrap=True)


@app.command()
def import_sacct(
    log: Annotated[Path, typer.Argument(help="What `sacct -P -X -o ...` printed; may be gzipped.")],
    db: Where = DEFAULT,
) -> None:
    """Record the jobs of a Slurm accounting log.

    Ask Slurm for it with: sacct -a -P -X -S 2026-01-01 -E now -o
    JobID,User,JobName,Partition,AllocCPUS,NodeList,Submit,Start,End,Elapsed,TimelimitRaw,State

    Job classes are (user, program, processors). Nodes, clusters (partitions) and the site itself are
    added where they are not there yet.
    """
    from site_db.jobs.logs.sacct import read_sacct
    from site_db.jobs.records import SourceKind

    _import_log(log, db, SourceKind.SACCT, read_sacct)


@app.command()
def import_swf(
    log: Annotated[Path, typer.Argument(help="A log in the Standard Workload Format; may be gzipped.")],
    db: Where = DEFAULT,
) -> None:
    """Record the jobs of an archive log.

    Job classes are (user, program, processors). The log tells of no machines: runs count for a machine class
    named for the partition.
    """
    from site_db.jobs.logs.swf import read_swf
    from site_db.jobs.records import SourceKind

    _import_log(log, db, SourceKind.SWF, read_swf)


@app.command()
def state(
    name: Annotated[str, typer.Argument(help="A machine or an interconnect.")],
    is_: Annotated[UpOrDown, typer.Argument(metavar="up|down", help="What it is now.")],
    db: Where = DEFAULT,
    local_load: Annotated[
        float | None, typer.Option(min=0.0, help="Processors that local users of the machine keep busy.")
    ] = None,
    traffic: Annotated[
        float | None, typer.Option(min=0.0, help="What the interconnect carries, in Mbit/s.")
    ] = None,
    committed: Annotated[
        float | None, typer.Option(min=0.0, help="What of the interconnect is promised, in Mbit/s.")
    ] = None,
) -> None:
    """Tell the state of a machine or an interconnect; what is down is down in experiments, too."""
    from site_db.sites import SiteReader
    from site_db.states import Seen, StateWriter

    with _changing(db) as (session, address):
        reader = SiteReader(session, _site(session, address))
        seen = Seen(is_ is UpOrDown.UP, local_load, traffic, committed)
        StateWriter(session, reader).add(name, seen, time.time())
    out.print(f"{address}: {name} is {is_.value}", soft_wrap=True)


@app.command()
def check(db: Where = DEFAULT) -> None:
    """Compute all statistics anew from the history, and compare."""
    from site_db.history.checking import disagreements
    from site_db.sites import find_site

    with _reading(db) as (session, address):
        site = _site(session, address)
        row = find_site(session, site)
        recorded, pruned = row.runs_recorded, row.runs_pruned
        wrong = len(list(disagreements(session, row.id)))
    if wrong:
        print_note(f"{wrong} statistics of the site '{site}' do not agree with its history")
        raise typer.Exit(1)
    kept = f"{recorded - pruned:,} runs" + (f" (and {pruned:,} that were pruned)" if pruned else "")
    out.print(f"The statistics of the site '{site}' agree with its history of {kept}.", soft_wrap=True)


@app.command()
def prune(
    db: Where = DEFAULT,
    keep: Annotated[int, typer.Option(min=0, help="How many of the latest runs to keep.")] = 100_000,
) -> None:
    """Forget old runs and their jobs; what they taught stays in the statistics."""
    from site_db.history.pruning import prune as prune_history
    from site_db.sites import find_site

    with _changing(db) as (session, address):
        site = find_site(session, _site(session, address))
        to = max(site.runs_recorded - keep, site.runs_pruned)
        gone = prune_history(session, site.id, to)
        left = site.runs_recorded - to
    out.print(f"{address}: {counted(gone, 'run')} forgotten, {left:,} kept", soft_wrap=True)


@app.command()
def upgrade(db: Where = DEFAULT) -> None:
    """Bring a database that an older version of sil made up to this one."""
    from site_db import migrations, store

    with one_sentence_for_bad_input():
        address = store.parse_address(db)
        engine = store.open_to_upgrade(address)
        with store.in_sentences(address):
            before = migrations.version_of(engine)
            migrations.upgrade(engine)
        store.open_database(address).dispose()
    done = (
        "was up to date" if before == migrations.HEAD else f"is upgraded from {before} to {migrations.HEAD}"
    )
    out.print(f"{address}: the database {done}", soft_wrap=True)


def _import_log(log: Path, db: str, kind: SourceKind, read: LogReader) -> None:
    """Record the jobs of a log, and tell what became of its rows."""
    from site_db.jobs.log_import import count_members, count_things, import_log
    from site_db.jobs.logs.logged_job import Tally, open_log, up_to_now

    tally = Tally()
    with _changing(db) as (session, address), open_log(log) as lines:
        site = _site(session, address)
        before, members_before = count_things(session, site), count_members(session, site)
        left_out = import_log(session, site, kind, log, up_to_now(read(lines, log, tally), log, time.time()))
        if not tally.used:
            told = "; ".join(_told(tally.refused, tally)) or "there are none"
            fail(f"{log}: none of its rows can be used: {told}")
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
            print_note(f"{grown}: runs of the partition of that name were on other machines, too")
    if left_out:
        out.print(f"Left out: {left_out:,} (told of before)", highlight=False)
    for what, counts in (("Repaired", tally.repaired), ("Refused", tally.refused)):
        for told in _told(counts, tally):
            out.print(f"{what}: {told}", soft_wrap=True, highlight=False)


def _told(counts: Counter[str], tally: Tally) -> list[str]:
    """How many rows, why, and where to look for the first."""
    return [f"{n:,} ({reason}; line {tally.first_line[reason]})" for reason, n in counts.most_common()]


@contextmanager
def _open(db: str) -> Iterator[tuple[Engine, Address]]:
    """The database; whatever goes wrong with it in here ends the command with one sentence."""
    from site_db import store

    with one_sentence_for_bad_input():
        address = store.parse_address(db)
        engine = store.open_database(address)
        try:
            yield engine, address
        finally:
            engine.dispose()


@contextmanager
def _reading(db: str) -> Iterator[tuple[Session, Address]]:
    from site_db import store

    with _open(db) as (engine, address), store.reading(engine) as session:
        yield session, address


@contextmanager
def _changing(db: str) -> Iterator[tuple[Session, Address]]:
    from site_db import store

    with _open(db) as (engine, address), store.changing(engine) as session:
        yield session, address


def _site(session: Session, address: Address) -> str:
    """The name of the site that is meant."""
    from site_db.sites import only_site

    return address.site or only_site(session)


def _write(path: Path, text: str) -> None:
    from sil.experiment.output_folder import UnusableFolder

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnusableFolder(f"the file {path} cannot be written: {error.strerror}") from None
