"""How addresses of hosts are packed."""

from __future__ import annotations

import socket
import struct
from typing import Annotated, NamedTuple


class Address(NamedTuple):
    host: str
    port: int


class _PackedAddress:
    """An address; none has no family. IPv4 addresses and all ports are packed with their bytes in the order
    of the processor, which here is little-endian."""

    def write(self, value: Address | None, version: int) -> bytes:
        if value is None:
            return b"\0\0"
        family = socket.AF_INET6 if ":" in value.host else socket.AF_INET
        packed = socket.inet_pton(family, value.host)
        host = packed[::-1] if family == socket.AF_INET else struct.pack(">I", len(packed)) + packed
        return struct.pack(">H", family) + host + struct.pack("<H", value.port)

    def read(self, data: bytes, at: int, version: int) -> tuple[Address | None, int]:
        (family,) = struct.unpack_from(">H", data, at)
        at += 2
        if family == socket.AF_INET:
            host, port = struct.unpack_from("<4sH", data, at)
            return Address(socket.inet_ntop(family, host[::-1]), port), at + 6
        if family == socket.AF_INET6:
            host, port = struct.unpack_from(">4x16s2s", data, at)
            (port,) = struct.unpack("<H", port)
            return Address(socket.inet_ntop(family, host), port), at + 22
        return None, at


PackedAddress = Annotated[Address | None, _PackedAddress()]
