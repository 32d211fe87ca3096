"""Whether running daemons see only what belongs to a run, by what they print of their configuration.

They are asked before time passes, since a daemon need not have read what the files were meant to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from scheduler import UserError
from site_db.slurm.lines import Pair

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
