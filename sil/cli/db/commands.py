"""`sil db`: sites, states and upkeep of a database."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sil.cli.console import JsonOption, counted, one_sentence_for_bad_input, out, print_note
from sil.cli.db.opened import DEFAULT, Where, changing, reading, site_of


class UpOrDown(StrEnum):
    UP = "up"
    DOWN = "down"


def init(db: Where = DEFAULT) -> None:
    """Create a new, empty database."""
    from site_db import store

    with one_sentence_for_bad_input():
        address = store.parse_address(db)
        store.create(address).dispose()
    out.print(f"{address}: a new database; put a site into it with: sil db import SITE.toml", soft_wrap=True)


def import_site(
    site: Annotated[str, typer.Argument(help="A site file, or the name of a built-in one.")],
    db: Where = DEFAULT,
) -> None:
    """Add the site of a site file to the database, or update the site of that name."""
    from sil.settings import files
    from site_db.jobs.log_import import count_things
    from site_db.site_file.exchange import read_site_file
    from site_db.site_file.importing import put_file
    from site_db.sites import site_names

    with changing(db) as (session, address):
        path = files.find(site, "sites", Path())
        file = read_site_file(path)
        there = site_names(session)
        put_file(session, file, path)
        counts = [counted(n, what) for what, n in count_things(session, file.name).items()]
    done = "is updated from its file" if file.name in there else "is new"
    out.print(f"{address}: the site '{file.name}' {done}: {', '.join(counts)}", soft_wrap=True)


def export(
    db: Where = DEFAULT,
    out_file: Annotated[Path | None, typer.Option("--out", help="Write to this file.")] = None,
) -> None:
    """Print a site as a site file."""
    from site_db.site_file import exchange
    from site_db.sites import SiteReader

    with reading(db) as (session, address):
        text = exchange.site_text(SiteReader(session, site_of(session, address)).as_file())
        if out_file is not None:
            _write(out_file, text)
    if out_file is None:
        print(text, end="")


def show(
    db: Where = DEFAULT,
    job_class: Annotated[
        str | None, typer.Option(help="Show the expected times of this job class on each resource.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show all sites, or one: machines, clusters and their states, queues, users, expected times."""
    from sil.cli.db import experience_listings, site_listings
    from sil.cli.db.listing import print_listings
    from site_db.sites import SiteReader, site_names
    from site_db.states import current_states

    with reading(db) as (session, address):
        names = site_names(session)
        if address.site is None and len(names) != 1:
            listings = [site_listings.sites(session)]
        else:
            site = address.site or names[0]
            reader = SiteReader(session, site)
            if job_class is None:
                states = current_states(session, reader)
                listings = [
                    site_listings.machines(reader, states),
                    site_listings.clusters(reader, states),
                    site_listings.states(states),
                    site_listings.queues(session, reader),
                    site_listings.users(session, reader),
                    experience_listings.expected_times(session, site),
                    experience_listings.measured_in_isolation(reader),
                    experience_listings.predictions(session, reader),
                ]
            else:
                listings = [
                    experience_listings.one_job_class(session, site, job_class),
                    experience_listings.measured_in_isolation(reader, job_class),
                ]
    print_listings(listings, as_json)


def state(
    name: Annotated[str, typer.Argument(help="A machine or an interconnect.")],
    is_: Annotated[UpOrDown, typer.Argument(metavar="up|down", help="Its state now.")],
    db: Where = DEFAULT,
    local_load: Annotated[
        float | None, typer.Option(min=0.0, help="Processors of the machine that local users keep busy.")
    ] = None,
    traffic: Annotated[
        float | None, typer.Option(min=0.0, help="Traffic of the interconnect, in Mbit/s.")
    ] = None,
    committed: Annotated[
        float | None,
        typer.Option(min=0.0, help="Bandwidth of the interconnect that is committed, in Mbit/s."),
    ] = None,
) -> None:
    """Update the state of a machine or an interconnect; experiments start from these states."""
    from site_db.sites import SiteReader
    from site_db.states import Seen, StateWriter

    with changing(db) as (session, address):
        reader = SiteReader(session, site_of(session, address))
        seen = Seen(is_ is UpOrDown.UP, local_load, traffic, committed)
        StateWriter(session, reader).add(name, seen, time.time())
    out.print(f"{address}: {name} is {is_.value}", soft_wrap=True)


def check(db: Where = DEFAULT) -> None:
    """Recompute all statistics from the history and compare."""
    from site_db.history.as_of import disagreements
    from site_db.sites import find_site

    with reading(db) as (session, address):
        site = site_of(session, address)
        row = find_site(session, site)
        recorded, pruned = row.runs_recorded, row.runs_pruned
        wrong = len(list(disagreements(session, row.id)))
    if wrong:
        print_note(f"{wrong} statistics of the site '{site}' do not agree with its history")
        raise typer.Exit(1)
    kept = f"{recorded - pruned:,} runs" + (f" (and {pruned:,} that were pruned)" if pruned else "")
    out.print(f"The statistics of the site '{site}' agree with its history of {kept}.", soft_wrap=True)


def prune(
    db: Where = DEFAULT,
    keep: Annotated[int, typer.Option(min=0, help="Number of latest runs to keep.")] = 100_000,
) -> None:
    """Delete old runs and their jobs; the statistics keep what they contributed."""
    from site_db.history.pruning import prune as prune_history
    from site_db.sites import find_site

    with changing(db) as (session, address):
        site = find_site(session, site_of(session, address))
        to = max(site.runs_recorded - keep, site.runs_pruned)
        gone = prune_history(session, site.id, to)
        left = site.runs_recorded - to
    out.print(f"{address}: {counted(gone, 'run')} forgotten, {left:,} kept", soft_wrap=True)


def upgrade(db: Where = DEFAULT) -> None:
    """Upgrade a database of an older version."""
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


def _write(path: Path, text: str) -> None:
    from sil.experiment.output_folder import UnusableFolder

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UnusableFolder(f"the file {path} cannot be written: {error.strerror}") from None
