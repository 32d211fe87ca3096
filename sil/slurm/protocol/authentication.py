"""Who sent a message: the credential between header and body."""

from __future__ import annotations

import os
import struct
from typing import NamedTuple, Protocol

from sil.slurm.protocol.packing.fields import U32, ProtocolError, Text
from sil.slurm.protocol.packing.layouts import layout

NONE, MUNGE = 100, 101
"""Plug-ins of authentication, by their number in messages."""
_NAMES = {NONE: "auth/none", MUNGE: "auth/munge", 102: "auth/jwt"}


class Credential(NamedTuple):
    """The sender."""

    user: U32
    group: U32
    host: Text = None


class Authentication(Protocol):
    def packed(self, message_type: int, version: int) -> bytes:
        """A credential of this process for a message."""

    def read(self, data: bytes, at: int, version: int) -> tuple[Credential, int]:
        """The sender of a message, and where the credential ends. Raises ProtocolError if it is malformed,
        not valid, or of another kind."""


class Stated:
    """`auth/none`: whom the sender states to be, which nobody checks."""

    def __init__(self, user: int | None = None, group: int | None = None, host: str = "localhost") -> None:
        """By default this process's user and group."""
        user = os.getuid() if user is None else user
        self._credential = Credential(user, os.getgid() if group is None else group, host)

    def packed(self, message_type: int, version: int) -> bytes:
        return struct.pack(">I", NONE) + layout(Credential, version).write(self._credential)

    def read(self, data: bytes, at: int, version: int) -> tuple[Credential, int]:
        credential, at = layout(Credential, version).read(data, after_kind(data, at, NONE))
        return credential, at


def after_kind(data: bytes, at: int, expected: int) -> int:
    """Where a credential begins after the number of its plug-in. Raises ProtocolError if that is another."""
    (kind,) = struct.unpack_from(">I", data, at)
    if kind != expected:
        found = _NAMES.get(kind, f"the unknown plug-in {kind}")
        raise ProtocolError(f"a message is authenticated by {found} instead of {_NAMES[expected]}")
    return at + 4
