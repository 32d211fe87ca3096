"""`sil db`: the commands on a site database, and the listings that they print."""

from __future__ import annotations

import typer

from sil.cli.db import commands, records

app = typer.Typer(
    no_args_is_help=True,
    help="""The database of a site: machines, users, job classes, and execution history.

    All commands take `--db`: an SQLite file or the address of a PostgreSQL database, followed by `#SITE`
    if the database has several sites: `site.db`, `site.db#hcs-2001`, `postgresql://user@host/database#hcs-2001`.
    The default is the environment variable SIL_DATABASE, or else the file site.db.
    """,
)
app.command()(commands.init)
app.command("import")(commands.import_site)
app.command()(commands.export)
app.command()(commands.show)
app.command()(records.history)
app.command()(records.import_sacct)
app.command()(records.import_swf)
app.command()(commands.state)
app.command()(commands.check)
app.command()(commands.prune)
app.command()(commands.upgrade)
