"""`auth/munge`. Credentials are made and checked by munge's library, which is loaded with ctypes: it is no
part of Slurm, and under the LGPL. Its daemon listens at the socket that is given."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from typing import NamedTuple

from sil.slurm.protocol.authentication import MUNGE, Credential, after_kind
from sil.slurm.protocol.packing.fields import ProtocolError, Text
from sil.slurm.protocol.packing.layouts import layout
from sil.slurm.protocol.packing.versions import V22_05


class _Credentials(NamedTuple):
    text: Text


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
        """Raises ProtocolError if the library is missing."""
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
        text = ctypes.cast(made, ctypes.c_char_p).value or b""
        self._library.free(made)
        return struct.pack(">I", MUNGE) + layout(_Credentials, version).write(_Credentials(text.decode()))

    def read(self, data: bytes, at: int, version: int) -> tuple[Credential, int]:
        credentials, at = layout(_Credentials, version).read(data, after_kind(data, at, MUNGE))
        user, group = ctypes.c_uint32(), ctypes.c_uint32()
        error = self._library.munge_decode(
            (credentials.text or "").encode("utf-8", "surrogateescape"),
            *(self._reading, None, None),
            *(ctypes.byref(user), ctypes.byref(group)),
        )
        if error and error != _ALREADY_READ:
            raise ProtocolError(f"munge rejects a message's credential: {self._reason(error)}")
        return Credential(user.value, group.value), at

    def _reason(self, error: int) -> str:
        return str(self._library.munge_strerror(error).decode())


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
