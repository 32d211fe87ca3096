"""`sil db`: a site's database, its states and upkeep, and the jobs recorded in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer import Argument, Option

from scheduler import UserError
from scheduler.messages import counted
from sil.cli import console, db_imports, options
from sil.cli.console import print_listings
from sil.cli.db_imports import DEFAULT, Database, opened
from sil.cli.lazy_group import group
from site_db.jobs.records import DemandBy

if TYPE_CHECKING:
    from site_db.store import Address


app = group(
    """The database of a site: machines, users, job classes, and execution history.

    All commands take `--db`: an SQLite file or the address of a PostgreSQL database, followed by `#SITE`
    if the database has several sites: `site.db`, `site.db#hcs-2001`, `postgresql://user@host/database#hcs-2001`.
    The default is the environment variable SIL_DATABASE, or else the file site.db.
    """,
)


app.command(epilog=db_imports.HOW_TO_CREATE)(db_imports.import_sacct)
for command in (db_imports.import_swf, db_imports.import_slurm_conf):
    app.command()(command)


@app.command()
def demand(
    db: Database = DEFAULT,
    by: Annotated[DemandBy, Option(help="Add up the jobs by this.")] = DemandBy.PARTITION,
    as_json: options.Json = False,
) -> None:
    """Show the demand of past jobs: their number, how many completed, CPU hours, GPU hours and mean wait."""
    from sil.site.experience_listings import past_demand
    from site_db.sites import SiteReader, site_at

    with opened(db) as (session, address):
        listing = past_demand(session, SiteReader(session, site_at(session, address)), by)
    print_listings([listing], as_json)


class UpOrDown(StrEnum):
    UP = "up"
    DOWN = "down"


@app.command()
def init(db: Database = DEFAULT) -> None:
    """Create a new, empty database."""
    from site_db import store

    address = store.parse_address(db)
    store.create(address).dispose()
    console.print_line(f"{address}: a new database; put a site into it with: sil db import SITE.toml")


@app.command("import")
def import_site(
    site: Annotated[str, Argument(help="A site file, or the name of a built-in one.")],
    db: Database = DEFAULT,
) -> None:
    """Add the site of a site file to the database, or update the site of that name."""
    from sil.settings import files
    from site_db.files.toml_file import located
    from site_db.jobs.log_import import count_things
    from site_db.site_file.importing import put_file, read_site_file
    from site_db.site_file.nodes import first_of, never_satisfied
    from site_db.sites import site_names

    with opened(db, changing=True) as (session, address):
        path = files.find(site, "sites", Path())
        file = read_site_file(path)
        there = site_names(session)
        put_file(session, file, path)
        place = {table.name: ("job_classes", k, "request") for k, table in enumerate(file.job_classes)}
        refused = [(place[name], sentence) for name, sentence in never_satisfied(file)]
        counts = [counted(n, what) for what, n in count_things(session, file.name).items()]
    for sentence in first_of(located(path, refused)):
        console.print_note(sentence)
    done = "is updated from its file" if file.name in there else "is new"
    console.print_line(f"{address}: the site '{file.name}' {done}: {', '.join(counts)}")


@app.command()
def export(
    db: Database = DEFAULT,
    out_file: Annotated[Path | None, Option("--out", help="Write to this file.")] = None,
) -> None:
    """Print a site as a site file, which can be imported into another database.

    A job class without a time from the site's staff has the times that are expected now. The history itself
    is not part of the file.
    """
    from site_db.copying import exported
    from site_db.site_file import importing
    from site_db.sites import site_at

    with opened(db) as (session, address):
        text = importing.site_text(exported(session, site_at(session, address)))
        if out_file is not None:
            _write(out_file, text)
    if out_file is None:
        print(text, end="")


@app.command()
def show(
    db: Database = DEFAULT,
    job_class: Annotated[
        str | None, Option(help="Show the expected times of this job class on each resource.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show all sites, or one: machines, partitions, clusters, states, queues, users, expected times."""
    from sil.site import experience_listings, resource_listings
    from sil.site.experience_listings import overview
    from site_db.sites import SiteReader, site_at, site_names

    with opened(db) as (session, address):
        if address.site is None and len(site_names(session)) != 1 and job_class is None:
            listings = [resource_listings.sites(session)]
        elif job_class is None:
            listings = overview(session, site_at(session, address))
        else:
            site = site_at(session, address)
            listings = [
                experience_listings.one_job_class(session, site, job_class),
                experience_listings.measured_in_isolation(SiteReader(session, site), job_class),
            ]
    print_listings(listings, as_json)


@app.command()
def history(
    db: Database = DEFAULT,
    last: Annotated[int, Option(min=1, help="Number of latest runs to show.")] = 20,
    import_file: Annotated[
        Path | None,
        Option(
            "--import",
            help="Record the jobs of a CSV file: one that an experiment wrote because it could not reach the "
            "database, or one with the columns job_class, resource, started_unix_s, run_time_s.",
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show the latest completed runs, or record those of a CSV file."""
    if import_file is not None:
        _import_csv(import_file, db)
        return
    from sil.site.experience_listings import latest_runs
    from site_db.sites import site_at

    with opened(db) as (session, address):
        listing = latest_runs(session, site_at(session, address), last)
    print_listings([listing], as_json)


def _import_csv(path: Path, db: str) -> None:
    from site_db.jobs.csv_file import import_file
    from site_db.sites import site_at

    with opened(db, changing=True) as (session, address):
        n, left_out = import_file(session, site_at(session, address), path, time.time())
    console.print_line(f"{address}: {counted(n, 'job')} of {path} recorded")
    if left_out:
        console.print_line(f"Left out: {counted(left_out, 'job')} that the site already has")


@app.command()
def state(
    name: Annotated[str, Argument(help="A machine or an interconnect.")],
    is_: Annotated[UpOrDown, Argument(metavar="up|down", help="Its state now.")],
    db: Database = DEFAULT,
    local_load: Annotated[
        float | None, Option(min=0.0, help="Processors of the machine that local users keep busy.")
    ] = None,
    traffic: Annotated[float | None, Option(min=0.0, help="Traffic of the interconnect, in Mbit/s.")] = None,
    committed: Annotated[
        float | None,
        Option(min=0.0, help="Bandwidth of the interconnect that is committed, in Mbit/s."),
    ] = None,
) -> None:
    """Update the state of a machine or an interconnect; experiments start from these states."""
    from site_db.sites import SiteReader, site_at
    from site_db.states import Observation, StateWriter

    with opened(db, changing=True) as (session, address):
        reader = SiteReader(session, site_at(session, address))
        seen = Observation(is_ is UpOrDown.UP, local_load, traffic, committed)
        StateWriter(session, reader).add(name, seen, time.time())
    console.print_line(f"{address}: {name} is {is_.value}")


@app.command()
def check(db: Database = DEFAULT) -> None:
    """Look for damage of the database, with its own check; recompute all statistics from the history and
    compare; look for contradictions in the site itself."""
    from site_db.history.stored_statistics import disagreements
    from site_db.integrity import damages
    from site_db.site_file.nodes import never_satisfied
    from site_db.site_file.validation import errors
    from site_db.sites import SiteReader, find_site, site_at

    with opened(db) as (session, address):
        if damaged := list(damages(session)):
            _report_damage(address, damaged)
        site = site_at(session, address)
        row = find_site(session, site)
        recorded, pruned = row.runs_recorded, row.runs_pruned
        wrong = len(list(disagreements(session, row.id)))
        file = SiteReader(session, site).as_file()
        found = [sentence for _, sentence in errors(file)]
        impossible = [sentence for _, sentence in never_satisfied(file)] if not found else []
    if wrong:
        found.append(f"{wrong} statistics of the site '{site}' do not agree with its history")
    for sentence in (*found, *impossible):
        console.print_note(sentence)
    if found:
        raise typer.Exit(1)
    kept = counted(recorded - pruned, "run") + (f" (and {pruned:,} that were pruned)" if pruned else "")
    console.print_line(f"The statistics of the site '{site}' agree with its history of {kept}.")


def _report_damage(address: Address, sentences: Sequence[str]) -> NoReturn:
    for sentence in sentences:
        console.print_note(sentence)
    restore = "restore the database from a backup, as the documentation of PostgreSQL describes"
    if address.is_sqlite:
        restore = f"restore it from a copy, or save what is intact: sil db salvage NEW.db --db '{address}'"
    console.print_note(f"{address}: the database is damaged; {restore}")
    raise typer.Exit(1)


@app.command()
def salvage(
    new: Annotated[Path, Argument(help="The SQLite file to write; it must not exist.")],
    db: Database = DEFAULT,
) -> None:
    """Save what is intact of a damaged SQLite file into a new database.

    Prints how many rows of each table were saved and left out. What can no longer be derived from them, like
    the statistics of lost runs, is named by `sil db check`.
    """
    from site_db import store
    from site_db.salvage import salvage as salvaged

    address, new_address = store.parse_address(db), store.parse_address(str(new))
    if address.path is None:
        console.fail(f"{address}: only SQLite files can be salvaged; restore a server's from a backup")
    tables = salvaged(address.path, new_address)
    for table in tables:
        if table.left_out or table.is_torn:
            lost = " more may be on damaged pages" if table.is_torn else ""
            left_out = f"{table.left_out:,} left out;{lost}".rstrip(";")
            console.print_note(f"table {table.table}: {counted(table.saved, 'row')} saved, {left_out}")
    n = sum(table.saved for table in tables)
    saved = f"{new_address}: {counted(n, 'row')} saved"
    console.print_line(f"{saved}; check it: sil db check --db '{new_address}'")


@app.command()
def prune(
    db: Database = DEFAULT,
    keep: Annotated[int, Option(min=0, help="Number of latest runs to keep.")] = 100_000,
) -> None:
    """Delete old runs and their jobs; the statistics keep what they contributed."""
    from site_db.history.writer import prune as prune_history
    from site_db.sites import find_site, site_at

    with opened(db, changing=True) as (session, address):
        site = find_site(session, site_at(session, address))
        to = max(site.runs_recorded - keep, site.runs_pruned)
        gone = prune_history(session, site.id, to)
        left = site.runs_recorded - to
    console.print_line(f"{address}: {counted(gone, 'run')} deleted, {left:,} kept")


@app.command()
def upgrade(db: Database = DEFAULT) -> None:
    """Upgrade a database of an older version."""
    from site_db import migrations, store

    address = store.parse_address(db)
    engine = store.open_to_upgrade(address)
    with store.in_sentences(address):
        before = migrations.version_of(engine)
        migrations.upgrade(engine)
    store.open_database(address).dispose()
    done = (
        f"is upgraded from {before} to {migrations.HEAD}" if before != migrations.HEAD else "was up to date"
    )
    console.print_line(f"{address}: the database {done}")


def _write(path: Path, text: str) -> None:

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"the file {path} cannot be written: {error.strerror}") from None
