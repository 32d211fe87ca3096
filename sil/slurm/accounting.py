"""Slurm's accounting for one controller: slurmdbd in simulated time, and its database, MariaDB.

Both run as the calling user in the controller's directory. The database has no network, no users and no
passwords: only who may enter the directory reaches its socket. It is in real time, which no value in it
depends on; the clock waits for it as for the daemons.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from sil.slurm.daemons import CommandFailed, Daemons, InvalidConfiguration
from sil.slurm.installation import calling_user
from sil.slurm.settings.selection import credential_settings, own_lines
from sil.world.guard.faults import one_line
from site_db.files.access import read_text
from site_db.files.input_errors import InvalidFile, quoted
from site_db.slurm.lines import Pair
from site_db.slurm.output import duration_s
from site_db.slurm.sacctmgr import dump_lines, qualities

REMEDY = "apt install slurmdbd mariadb-server"
_TRES = re.compile(r":\w+TRES\w*=('[^']*'|[^:]*)", re.IGNORECASE)
"""Matches a limit of resources, in a line of what `sacctmgr dump` writes."""
_QOS = re.compile(r"\s*QOS\s*-", re.IGNORECASE)
"""Matches the beginning of a line of a quality of service, which sacctmgr does not load before 25.05."""
_NAME = re.compile(r"[\w.@][\w.@+-]*")
"""Matches the name of an account or a quality of service; sacctmgr takes others for options or lists, and
changes quotes."""


@dataclass(frozen=True)
class Accounting:
    """What Slurm's database has at the start.

    Associations are in a file that `sacctmgr dump CLUSTER` wrote, or those of `accounts` (of a user, the
    default first), with equal shares. Qualities of service are in what `sacctmgr --parsable2 show qos`
    prints.
    """

    associations: Path | None = None
    qos: Path | None = None
    accounts: Mapping[str, Sequence[str]] | None = None
    qualities: Collection[str] = ()
    """Further names of qualities of service, without limits and priorities."""

    def names_of_qualities(self) -> set[str]:
        """The names of all qualities of service that must exist. Raises InvalidFile."""
        found = {_checked(name, "the log: QOS").lower() for name in self.qualities}  # as Slurm has them
        if self.associations is not None:
            for line in dump_lines(self.associations):
                names = f"{line.get('qos')},{line.get('defaultqos')}".split(",")
                known = {name.lstrip("+-") for name in names} - {""}
                found |= {_checked(name, f"{line.where}: QOS") for name in known}
        return found | {name for name, _ in self.definitions()}

    def definitions(self) -> list[tuple[str, list[str]]]:
        """Qualities of service with their settings, as `sacctmgr modify` calls these. Raises InvalidFile."""
        return [
            (_checked(line.pairs[0].value, f"{line.where}: QOS"), [*map(_as_modified, line.pairs[1:])])
            for line in qualities(self.associations, self.qos)
        ]


def _as_modified(pair: Pair) -> str:
    """A setting of a quality of service: a table has some names, and times, in another form."""
    key = re.sub(r"submit(p[ua])$", r"submitjobs\1", pair.name)
    seconds = duration_s(pair.value, 1) if key == "gracetime" else None
    return f"{key}={pair.value if seconds is None else seconds}"


def _checked(name: str, what: str) -> str:
    if _NAME.fullmatch(name):
        return name
    raise InvalidFile(
        f"{what} {quoted(name)} is not a name for Slurm's database; expected letters, digits and ._@+-, with "
        f"no sign at the beginning; rename it"
    )


def started_accounting(daemons: Daemons, munge: Path | None) -> int:
    """Start slurmdbd and its database, with munge's socket or without it. Returns the port at which it
    listens. Raises NoSlurm, and as `Daemons.start`."""
    slurmdbd = daemons.installation.program("slurmdbd", REMEDY)
    _, port = daemons.reserved_port()
    user = f"sil_{secrets.token_hex(8)}"  # which no other database has
    database = _started_database(daemons, user)
    own = [
        *credential_settings(munge),
        *own_lines(
            "own_slurmdbd.conf", port=port, user=calling_user(), folder=daemons.folder, database_user=user
        ),
    ]
    if (plugins := daemons.installation.plugins) is not None:
        own.append(Pair("PluginDir", str(plugins)))
    path = daemons.folder / "slurmdbd.conf"
    path.write_text("".join(f"{pair}\n" for pair in own))
    path.chmod(0o600)  # slurmdbd insists on it
    socket = {"MYSQL_UNIX_PORT": str(daemons.folder / "mariadb.socket")}
    daemons.start("slurmdbd", slurmdbd, ["-D"], port, socket)
    with suppress(ProcessLookupError):  # of which slurmdbd complains
        daemons.clock.watch(database, is_servant=True)
    return port


def declared(daemons: Daemons, accounting: Accounting, cluster: str) -> None:
    """Put into the database what slurmctld needs to start: the names of qualities of service, and the cluster
    with those that all may use. Raises CommandFailed and InvalidFile."""
    for name in sorted(accounting.names_of_qualities() - {"normal"}):  # which Slurm makes
        _sacctmgr(daemons, "add", "qos", f"name={name}", of=accounting.qos)
    lines = takewhile(re.compile(r"#|\s*$|Cluster\b").match, _associations(accounting, cluster).splitlines())
    _load(
        daemons,
        accounting,
        cluster,
        "\n".join((*(_TRES.sub("", line) for line in lines), "Parent - 'root'\n")),
    )


def loaded(daemons: Daemons, accounting: Accounting, cluster: str) -> None:
    """Put limits and associations into the database. They may name resources like gres/gpu, which the
    running slurmctld has put there. Raises CommandFailed and InvalidFile."""
    of = accounting.qos or accounting.associations
    for name, settings in accounting.definitions():
        if settings:
            _sacctmgr(daemons, "modify", "qos", f"name={name}", "set", *settings, of=of)
    _load(daemons, accounting, cluster, _associations(accounting, cluster))


def _associations(accounting: Accounting, cluster: str) -> str:
    if accounting.associations is not None:
        lines = read_text(accounting.associations).split("\n")
        return "\n".join("" if _QOS.match(line) else line for line in lines)
    return dumped(cluster, accounting.accounts or {}, accounting.names_of_qualities())


def _load(daemons: Daemons, accounting: Accounting, cluster: str, text: str) -> None:
    path, users = daemons.folder / "associations", daemons.folder / "administrators"
    path.write_text(text)
    # Only an administrator in the database may load a file. It has one, root, whoever that is here.
    users.write_text(f"root:x:{os.getuid()}:{os.getgid()}::/:\n{(daemons.folder / 'users').read_text()}")
    load = ("load", f"file={path}", f"cluster={cluster}")
    _sacctmgr(daemons, *load, of=accounting.associations, variables={"SIL_USERS": str(users)})


def _sacctmgr(
    daemons: Daemons, *words: str, of: Path | None = None, variables: Mapping[str, str] | None = None
) -> None:
    """Run a command that changes the database, with what the user's file `of` says. Raises CommandFailed, and
    InvalidFile with that file."""
    try:
        daemons.slurm("sacctmgr", "--immediate", *words, variables=variables or {})
    except CommandFailed as error:
        if of is None:
            raise
        raise InvalidFile(f"{of}: {error}") from None


def dumped(cluster: str, accounts: Mapping[str, Sequence[str]], qualities: Iterable[str] = ()) -> str:
    """Users in their accounts, of which the first is the default, with equal shares, in the form of
    `sacctmgr dump`. All may use the `qualities` of service. Raises InvalidFile for a name of an account that
    cannot be there."""

    def lines() -> Iterator[str]:
        yield f"Cluster - '{cluster}':Fairshare=1:QOS='{','.join(sorted({'normal', *qualities}))}'"
        yield "Parent - 'root'"
        members: dict[str, list[str]] = {}
        for user, its in accounts.items():
            for account in dict.fromkeys(map(str.lower, its)):  # Slurm has them in small letters
                members.setdefault(_checked(account, "the log: account"), []).append(user)
        for account in sorted(members):
            yield f"Account - '{account}':Description='{account}':Organization='{account}':Fairshare=1"
        for account in sorted(members):
            yield f"Parent - '{account}'"
            for user in sorted(members[account]):
                yield f"User - '{user}':DefaultAccount='{accounts[user][0].lower()}':Fairshare=1"

    return "\n".join((*lines(), ""))


def _started_database(daemons: Daemons, user: str) -> int:
    """Start MariaDB on new tables, with this user. Returns its process id."""
    folder, installation = daemons.folder, daemons.installation
    mariadbd = installation.helper("mariadbd", REMEDY)
    install = installation.helper("mariadb-install-db", REMEDY)
    own = [*own_lines("own_mariadb.cnf", folder=folder)]
    if os.geteuid() == 0:
        # As "user", mariadb-install-db would also give that user a directory of the system's MariaDB.
        own.append(Pair("loose-user", "root"))
    (folder / "mariadb.tmp").mkdir()
    granted = f"CREATE USER {user}@localhost IDENTIFIED BY '';\nGRANT ALL ON *.* TO {user}@localhost;\n"
    (folder / "mariadb.sql").write_text(granted)
    options = folder / "mariadb.cnf"
    options.write_text("[mariadbd]\n" + "".join(f"{key}={value}\n" for key, value in own))
    words, variables = installation.invoked(
        [install, f"--defaults-file={options}", "--auth-root-authentication-method=normal", "--skip-test-db"]
    )
    made = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if made.returncode:
        raise InvalidConfiguration(f"MariaDB cannot make its tables: {one_line(made.stderr or made.stdout)}")
    return daemons.helper("mariadb", [mariadbd, f"--defaults-file={options}"])
