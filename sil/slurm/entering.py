"""A program of its own: run a command with the programs and libraries of another root directory.

    python -I -S entering.py ROOT NAME=VALUE... -- COMMAND...

Only /usr is another one, in a mount namespace of the command; its user, /etc and all else are this
computer's. Without root, a user namespace permits that. The variables are all that the command gets.
"""

import ctypes
import os
import sys
from pathlib import Path

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 1 << 18
FAILED = "cannot be run with the files of"
OWN = "/usr/local"
"""The folder that stays this computer's: Python and the testbed may be there."""


def enter(root: str) -> None:
    """Enter the root directory. Raises OSError."""
    user, group = os.getuid(), os.getgid()
    try:
        _call("unshare", _NEW_MOUNTS)
    except PermissionError:
        _call("unshare", _NEW_MOUNTS | _NEW_USERS)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    for source, target in ((OWN, f"{root}{OWN}"), (f"{root}/usr", "/usr")):
        if os.path.isdir(source) and os.path.isdir(target):
            _call("mount", os.fsencode(source), os.fsencode(target), None, _BIND | _RECURSIVE, None)


def _call(name: str, *values: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*values):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def main(root: str, words: list[str]) -> None:
    end = words.index("--")
    command, variables = words[end + 1 :], dict(word.split("=", 1) for word in words[:end])
    try:
        enter(root)
        os.execve(command[0], command, variables)
    except OSError as error:
        sys.exit(f"{command[0]} {FAILED} {root}: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
