"""The settings of a controller in simulated time that are our own, and whether running daemons have them.

Daemons are asked before time passes, since they need not have read what the files were meant to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scheduler import UserError
from site_db.slurm.lines import Pair


class Surroundings(NamedTuple):
    """Where a controller runs."""

    folder: str
    user: str
    controller_port: int | str
    node_port: int | str
    accounting_port: int | None = None
    munge: str | None = None
    """Its socket."""
    log_level: str = "info"
    plugins: str | None = None
    """Their folder, unless Slurm knows it."""


def credential_settings(munge: str | None) -> Iterator[Pair]:
    """Of a daemon; with munge's socket, or without it."""
    yield Pair("AuthType", "auth/none" if munge is None else "auth/munge")
    if munge is not None:
        yield Pair("AuthInfo", f"socket={munge}")


def own_settings(here: Surroundings) -> Iterator[Pair]:
    """What takes the place of settings that are not kept."""
    settings = {
        "SlurmctldHost": "localhost(127.0.0.1)",
        "SlurmctldPort": str(here.controller_port),
        "SlurmdPort": str(here.node_port),
        "SlurmUser": here.user,
        "SlurmdUser": here.user,
        # Since 24.11 connections have a pool of threads, 64 of them by default; the clock looks at each.
        "SlurmctldParameters": "conmgr_threads=4",
        "StateSaveLocation": f"{here.folder}/state",
        "SlurmdSpoolDir": f"{here.folder}/spool",
        "TmpFS": f"{here.folder}/spool",
        "SlurmctldPidFile": f"{here.folder}/slurmctld.pid",
        "SlurmdPidFile": f"{here.folder}/slurmd.pid",
        "SlurmctldLogFile": f"{here.folder}/slurmctld.log",
        "SlurmctldDebug": here.log_level,
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{here.folder}/jobcomp.txt",
        # In real time: a node that does not answer at once has a slow simulator, and is not down.
        "MessageTimeout": "100",
        "TreeWidth": "1",
        "BcastExclude": "none",
        # Nodes are as the configuration says, whatever they register.
        "SlurmdParameters": "config_overrides",
        "SlurmdTimeout": "0",
        "InactiveLimit": "0",
        "ReturnToService": "1",
        "MailProg": "/bin/true",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "SwitchType": "switch/none",
        "MpiDefault": "none",
        "GroupUpdateTime": "0",
        "CredType": "cred/none" if here.munge is None else "cred/munge",
        "AccountingStorageType": "accounting_storage/none",
    }
    if here.plugins is not None:
        settings["PluginDir"] = here.plugins
    if here.accounting_port is not None:
        settings |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "127.0.0.1",
            "AccountingStoragePort": str(here.accounting_port),
            **({} if here.munge is None else {"AccountingStoragePass": here.munge}),
        }
    yield from (Pair(key, value) for key, value in settings.items())
    yield from credential_settings(here.munge)


_LINE = re.compile(r"(\w+)(?:\[\d+\])?\s+= (.*)")
_PATH = re.compile(r"(?<![\w/])/[^\s,;:|()\"']*")
_OF_PROGRAMS = re.compile(r"prog$|program$|prolog|epilog|script$|plugstack$", re.IGNORECASE)
_NO_PROGRAM = re.compile(r"(timeout|flags|time|^archivejobscript)$", re.IGNORECASE)
"""Whether scripts are archived is yes or no."""
_OF_HOSTS = re.compile(r"(host|addr|machine|controller)$", re.IGNORECASE)
_NONE = ("", "(null)", "none", "N/A")
_ONLY_READ = ("plugindir", "slurm_conf")
"""Slurm's plug-ins; and what `sacctmgr` prints as the file that it would read by default."""
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|::1|[\w.-]+\((?:127\.[\d.]+|::1|localhost)\)")


def check_view(name: str, shown: str, folder: str, own: Iterable[Pair]) -> None:
    """Check the settings of a daemon, as `scontrol show config` or `sacctmgr show config` print them: paths
    are in `folder`, hosts are this computer, programs are `own`. Raises UserError."""
    ours = {pair.name: pair.value for pair in own}
    settings = [(match[1], match[2].strip()) for match in map(_LINE.fullmatch, shown.splitlines()) if match]
    if not settings:
        raise UserError(f"{name} does not show its configuration, so that nothing proves what it would touch")
    for key, value in settings:
        if value in _NONE or key.lower() in _ONLY_READ or value == ours.get(key.lower()):
            continue
        outside = [path for path in _PATH.findall(value) if not _is_in(path, folder)]
        is_program = _OF_PROGRAMS.search(key) and not _NO_PROGRAM.search(key)
        if outside or is_program or (_OF_HOSTS.search(key) and _LOOPBACK.fullmatch(value) is None):
            raise UserError(
                f"{name} has {key}={value}, which does not belong to the run, so nothing was run; remove it "
                f"from a copy of slurm.conf, and report this as a fault of sil"
            )


def check_addresses(shown: str) -> None:
    """Check the addresses of nodes, a line each. Raises UserError."""
    for address in shown.split():
        if _LOOPBACK.fullmatch(address) is None:
            raise UserError(f"slurmctld has a node at {address}, which is not this computer; nothing was run")


def _is_in(path: str, folder: str) -> bool:
    return (path == folder or path.startswith(f"{folder}/")) and ".." not in path.split("/")
