"""Messages over sockets."""

from __future__ import annotations

import socket

from sil.slurm.protocol.authentication import Authentication
from sil.slurm.protocol.envelope import Message, decode, encode, length_of
from sil.slurm.protocol.packing.fields import ProtocolError


def ask(
    address: tuple[str, int], request: Message, authentication: Authentication, limit_s: float = 10.0
) -> Message:
    """What the controller at an address answers. Raises ProtocolError if the answer cannot be read, and
    OSError if there is no connection or no answer within the limit."""
    with socket.create_connection(address, limit_s) as connection:
        send(connection, request, authentication)
        return receive(connection, authentication)


def tell(
    address: tuple[str, int], message: Message, authentication: Authentication, limit_s: float = 10.0
) -> None:
    """Send a MESSAGE_EPILOG_COMPLETE, which the controller does not answer. Raises OSError if there is no
    connection."""
    with socket.create_connection(address, limit_s) as connection:
        send(connection, message, authentication)


def receive(connection: socket.socket, authentication: Authentication) -> Message:
    """The next message. Raises ProtocolError if it cannot be read, and OSError for a fault of the
    connection."""
    return decode(_bytes(connection, length_of(_bytes(connection, 4))), authentication)


def send(connection: socket.socket, message: Message, authentication: Authentication) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(encode(message, authentication))


def _bytes(connection: socket.socket, length: int) -> bytes:
    """Raises ProtocolError if the connection ends before."""
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 1 << 20))
        if not part:
            raise ProtocolError(f"the connection ended after {len(found):,} of {length:,} bytes of a message")
        found += part
    return bytes(found)
