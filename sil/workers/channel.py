"""Messages between two processes of a run: a dictionary in JSON, and bytes behind it."""

from __future__ import annotations

import json
import socket
import struct
from math import isfinite
from typing import Any, NamedTuple, NoReturn

HEAD = struct.Struct("<II")
"""The sizes of the dictionary, and of the bytes behind it."""


_ESCAPED = rb"\u"
"""The escape in texts that are not ASCII, or not Unicode."""


class BadMessage(Exception):
    """A message that cannot be read. Its text says what is wrong with it."""


class Message(NamedTuple):
    fields: dict[str, Any]
    columns: bytes = b""

    def packed(self) -> bytes:
        fields = json.dumps(self.fields, separators=(",", ":")).encode("ascii")
        return HEAD.pack(len(fields), len(self.columns)) + fields + self.columns


def unpacked(fields: bytes, columns: bytes) -> Message:
    """Parse a message. Raises BadMessage, also for a number that is not finite, and a text that is not
    Unicode."""
    try:
        found = json.loads(fields, parse_float=_finite, parse_constant=_refused)
        if _ESCAPED in fields:
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"it is not JSON with finite numbers ({error})") from None
    if not isinstance(found, dict):
        raise BadMessage("it is not a dictionary")
    return Message(found, columns)


def _finite(text: str) -> float:
    found = float(text)
    return found if isfinite(found) else _refused(text)


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


def send(connection: socket.socket, message: Message) -> None:
    """Send a message. Raises OSError."""
    connection.sendall(message.packed())


def receive(connection: socket.socket) -> Message:
    """Wait for the next message, from a process that is trusted. Raises EOFError."""
    n_fields, n_columns = HEAD.unpack(_exactly(connection, HEAD.size))
    fields = _exactly(connection, n_fields)
    return unpacked(fields, _exactly(connection, n_columns))


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = connection.recv(size, socket.MSG_WAITALL) if size else b""
    if len(found) < size:
        raise EOFError
    return found
