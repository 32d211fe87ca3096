"""The settings of a controller in simulated time that are our own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
