"""`sil db`: a site's database, its states and upkeep, and the jobs recorded in it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from click.exceptions import Exit

from scheduler.messages import UserError, counted
from sil.cli import console, db_imports, options
from sil.cli.app import group
from sil.cli.console import print_listings
from sil.cli.db_imports import DEFAULT, Database, at_site, opened
from sil.cli.parameters import Argument, CommandOption
from site_db.jobs.records import DemandBy

app = group(
    """The database of a site: machines, users, job classes, and execution history.

    All commands take `--db`: an SQLite file or the address of a PostgreSQL database, followed by `#SITE`
    if the database has several sites: `site.db`, `site.db#hcs-2001`, `postgresql://user@host/database#hcs-2001`.
    The default is the environment variable SIL_DATABASE, or else the file site.db.
    """
)


app.register(epilog=db_imports.HOW_TO_CREATE)(db_imports.import_sacct)
for command in (db_imports.import_swf, db_imports.import_slurm_conf):
    app.register()(command)


@app.register()
def demand(db: Database = DEFAULT, by: DemandBy = DemandBy.PARTITION, as_json: options.Json = False) -> None:
    """Show the demand of past jobs: their number, how many completed, CPU hours, GPU hours and mean wait.

    * `by`: Add up the jobs by this.
    """
    from sil.site.experience_listings import past_demand
    from site_db.sites import SiteReader

    with at_site(db) as (session, _, site):
        listing = past_demand(session, SiteReader(session, site), by)
    print_listings([listing], as_json)


@app.register()
def init(db: Database = DEFAULT) -> None:
    """Create a new, empty database."""
    from site_db import store

    address = store.parse_address(db)
    store.create(address).dispose()
    console.print_line(f"{address}: a new database; put a site into it with: sil db import SITE.toml")


@app.register("import")
def import_site(site: str, db: Database = DEFAULT) -> None:
    """Add the site of a site file to the database, or update the site of that name.

    * `site`: A site file, or the name of a built-in one.
    """
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


@app.register()
def export(
    db: Database = DEFAULT, out_file: Annotated[Path | None, CommandOption(name="--out")] = None
) -> None:
    """Print a site as a site file, which can be imported into another database.

    * `out_file`: Write to this file.

    A job class without a time from the site's staff has the times that are expected now. The history itself
    is not part of the file.
    """
    from site_db.exchange import exported
    from site_db.site_file.importing import site_text

    with at_site(db) as (session, _, site):
        text = site_text(exported(session, site))
    if out_file is None:
        print(text, end="")
        return
    try:
        out_file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"the file {out_file} cannot be written: {error.strerror}") from None


@app.register()
def show(db: Database = DEFAULT, job_class: str | None = None, as_json: options.Json = False) -> None:
    """Show all sites, or one: machines, partitions, clusters, states, queues, users, expected times.

    * `job_class`: Show the expected times of this job class on each resource.
    """
    from sil.site import experience_listings, resource_listings
    from site_db.sites import SiteReader, site_at, site_names

    with opened(db) as (session, address):
        if address.site is None and len(site_names(session)) != 1 and job_class is None:
            listings = [resource_listings.sites(session)]
        elif job_class is None:
            listings = experience_listings.overview(session, site_at(session, address))
        else:
            site = site_at(session, address)
            listings = [
                experience_listings.one_job_class(session, site, job_class),
                experience_listings.measured_in_isolation(SiteReader(session, site), job_class),
            ]
    print_listings(listings, as_json)


@app.register()
def history(
    db: Database = DEFAULT,
    last: Annotated[int, CommandOption(min=1)] = 20,
    import_file: Annotated[Path | None, CommandOption(name="--import")] = None,
    as_json: options.Json = False,
) -> None:
    """Show the latest completed runs, or record those of a CSV file.

    * `last`: Number of latest runs to show.
    * `import_file`: Record the jobs of a CSV file: one that an experiment wrote because it could not reach
      the database, or one with the columns job_class, resource, started_unix_s, run_time_s.
    """
    from sil.site.experience_listings import latest_runs
    from site_db.jobs import recording

    if import_file is None:
        with at_site(db) as (session, _, site):
            listing = latest_runs(session, site, last)
        print_listings([listing], as_json)
        return
    with at_site(db, changing=True) as (session, address, site):
        n, left_out = recording.import_file(session, site, import_file, time.time())
    console.print_line(f"{address}: {counted(n, 'job')} of {import_file} recorded")
    if left_out:
        console.print_line(f"Left out: {counted(left_out, 'job')} that the site already has")


@app.register()
def state(
    name: str,
    is_: Annotated[Literal["up", "down"], Argument(metavar="up|down")],
    db: Database = DEFAULT,
    local_load: Annotated[float | None, CommandOption(min=0.0)] = None,
    traffic: Annotated[float | None, CommandOption(min=0.0)] = None,
    committed: Annotated[float | None, CommandOption(min=0.0)] = None,
) -> None:
    """Update the state of a machine or an interconnect; experiments start from these states.

    * `name`: A machine or an interconnect.
    * `is_`: Its state now.
    * `local_load`: Processors of the machine that local users keep busy.
    * `traffic`: Traffic of the interconnect, in Mbit/s.
    * `committed`: Bandwidth of the interconnect that is committed, in Mbit/s.
    """
    from site_db.sites import SiteReader
    from site_db.states import Observation, StateWriter

    with at_site(db, changing=True) as (session, address, site):
        seen = Observation(is_ == "up", local_load, traffic, committed)
        StateWriter(session, SiteReader(session, site)).add(name, seen, time.time())
    console.print_line(f"{address}: {name} is {is_}")


@app.register()
def check(db: Database = DEFAULT) -> None:
    """Look for damage of the database, with its own check; recompute all statistics from the history and
    compare; look for contradictions in the site itself."""
    from site_db.damage import damages
    from site_db.history.stored_statistics import disagreements
    from site_db.site_file.nodes import never_satisfied
    from site_db.site_file.validation import errors
    from site_db.sites import SiteReader, site_at

    with opened(db) as (session, address):
        if damaged := [*damages(session)]:
            restore = "restore the database from a backup, as the documentation of PostgreSQL describes"
            if address.is_sqlite:
                salvaging = f"sil db salvage NEW.db --db '{address}'"
                restore = f"restore it from a copy, or save what is intact: {salvaging}"
            _end_with((*damaged, f"{address}: the database is damaged; {restore}"))
        site = site_at(session, address)
        reader = SiteReader(session, site)
        recorded, pruned = reader.site.runs_recorded, reader.site.runs_pruned
        wrong = len([*disagreements(session, reader.site.id)])
        file = reader.as_file()
        found = [sentence for _, sentence in errors(file)]
        impossible = [sentence for _, sentence in never_satisfied(file)] if not found else []
    if wrong:
        found.append(f"{wrong} statistics of the site '{site}' do not agree with its history")
    if found:
        _end_with((*found, *impossible))
    for sentence in impossible:
        console.print_note(sentence)
    kept = counted(recorded - pruned, "run") + (f" (and {pruned:,} that were pruned)" if pruned else "")
    console.print_line(f"The statistics of the site '{site}' agree with its history of {kept}.")


def _end_with(sentences: Iterable[str]) -> NoReturn:
    for sentence in sentences:
        console.print_note(sentence)
    raise Exit(1)


@app.register()
def salvage(new: Path, db: Database = DEFAULT) -> None:
    """Save what is intact of a damaged SQLite file into a new database.

    * `new`: The SQLite file to write; it must not exist.

    Prints how many rows of each table were saved and left out. What can no longer be derived from them, like
    the statistics of lost runs, is named by `sil db check`.
    """
    from site_db import store

    address, new_address = store.parse_address(db), store.parse_address(str(new))
    if address.path is None:
        console.fail(f"{address}: only SQLite files can be salvaged; restore a server's from a backup")
    tables = store.salvage(address.path, new_address)
    for table in tables:
        if table.left_out or table.is_torn:
            lost = " more may be on damaged pages" if table.is_torn else ""
            left_out = f"{table.left_out:,} left out;{lost}".rstrip(";")
            console.print_note(f"table {table.table}: {counted(table.saved, 'row')} saved, {left_out}")
    saved = counted(sum(table.saved for table in tables), "row")
    console.print_line(f"{new_address}: {saved} saved; check it: sil db check --db '{new_address}'")


@app.register()
def prune(db: Database = DEFAULT, keep: Annotated[int, CommandOption(min=0)] = 100_000) -> None:
    """Delete old runs and their jobs; the statistics keep what they contributed.

    * `keep`: Number of latest runs to keep.
    """
    from site_db.history import writer
    from site_db.sites import find_site

    with at_site(db, changing=True) as (session, address, name):
        site = find_site(session, name)
        to = max(site.runs_recorded - keep, site.runs_pruned)
        gone, left = writer.prune(session, site.id, to), site.runs_recorded - to
    console.print_line(f"{address}: {counted(gone, 'run')} deleted, {left:,} kept")


@app.register()
def upgrade(db: Database = DEFAULT) -> None:
    """Upgrade a database of an older version."""
    from site_db import migrations, store

    address = store.parse_address(db)
    engine = store.open_to_upgrade(address)
    with store.in_sentences(address):
        before = migrations.version_of(engine)
        migrations.upgrade(engine)
    store.open_database(address).dispose()
    is_new = before == migrations.HEAD
    done = "was up to date" if is_new else f"is upgraded from {before} to {migrations.HEAD}"
    console.print_line(f"{address}: the database {done}")
