"""Who sent a message: the credential between header and body, stated (`auth/none`) or of munge."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from typing import Any

from sil.slurm.protocol.records import Credential, record
from sil.slurm.protocol.releases import V22_05, ProtocolError
from sil.slurm.protocol.wire import Reader, packed, text, u32

NONE, MUNGE = 100, 101
"""Plug-ins of authentication, by their number in messages."""
_NAMES = {NONE: "auth/none", MUNGE: "auth/munge", 102: "auth/jwt"}


class Stated:
    """`auth/none`: the sender's own statement, which is not checked.

    A credential of this process is `packed` for a message. What is `read` is the sender of one, a Credential;
    ProtocolError is raised if it is malformed, not valid, or of another kind."""

    def __init__(self, user: int | None = None, group: int | None = None, host: str = "localhost") -> None:
        user = os.getuid() if user is None else user
        self._credential = Credential(user, os.getgid() if group is None else group, host)

    def packed(self, message_type: int, version: int) -> bytes:
        return struct.pack(">I", NONE) + packed(record("Credential"), self._credential, version)

    def read(self, wire: Reader) -> Any:
        check_kind(wire, NONE)
        return record("Credential")(wire, None)


def check_kind(wire: Reader, expected: int) -> None:
    """A credential begins with the number of its plug-in. Raises ProtocolError if that is another."""
    kind = u32(wire, None)
    if kind != expected:
        found = _NAMES.get(kind, f"the unknown plug-in {kind}")
        raise ProtocolError(f"a message is authenticated by {found} instead of {_NAMES[expected]}")


_NO_HASH = 1
"""The kind of hash of a body that covers the number of the message only."""
_SOCKET = 8
"""Option of munge's library: where its daemon listens."""
_ALREADY_READ = 17
"""Munge's error for a credential that was read before: the sender's copy is kept when a message is sent
again."""


class Munge:
    """`auth/munge`, with the daemon that listens at a socket (None: the system's)."""

    def __init__(self, socket: str | None = None) -> None:
        """Load munge's library. Raises ProtocolError if it is missing."""
        self._library = _library()
        # a context takes over the options of the credentials that it reads
        self._making, self._reading = (self._context(socket) for _ in range(2))

    def _context(self, socket: str | None) -> ctypes.c_void_p:
        context = ctypes.c_void_p(self._library.munge_ctx_create())
        if socket is not None:
            self._library.munge_ctx_set(context, _SOCKET, ctypes.c_char_p(os.fsencode(socket)))
        return context

    def packed(self, message_type: int, version: int) -> bytes:
        order = ">" if version >= V22_05 else "<"  # 21.08 packs this number as the processor does
        covered = struct.pack(f"{order}BH", _NO_HASH, message_type)
        made = ctypes.c_void_p()
        error = self._library.munge_encode(ctypes.byref(made), self._making, covered, len(covered))
        if error:
            raise ProtocolError(f"munge makes no credential: {self._reason(error)}")
        credential = ctypes.cast(made, ctypes.c_char_p).value or b""
        self._library.free(made)
        return struct.pack(">I", MUNGE) + packed(text, credential.decode(), version)

    def read(self, wire: Reader) -> Any:
        check_kind(wire, MUNGE)
        credential = text(wire, None) or ""
        user, group = ctypes.c_uint32(), ctypes.c_uint32()
        error = self._library.munge_decode(
            credential.encode("utf-8", "surrogateescape"),
            *(self._reading, None, None),
            *(ctypes.byref(user), ctypes.byref(group)),
        )
        if error and error != _ALREADY_READ:
            raise ProtocolError(f"munge rejects a message's credential: {self._reason(error)}")
        return Credential(user.value, group.value)

    def _reason(self, error: int) -> str:
        return str(self._library.munge_strerror(error).decode())


Authentication = Stated | Munge


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libmunge.so.2")
    except OSError:
        raise ProtocolError(
            "munge's library is missing; install libmunge2, or use AuthType=auth/none"
        ) from None
    library.munge_ctx_create.restype = ctypes.c_void_p
    library.munge_strerror.restype = ctypes.c_char_p
    library.free.argtypes = [ctypes.c_void_p]
    return library
