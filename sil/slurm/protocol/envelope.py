"""Messages as a whole: their length, a header with the nodes to forward to and what these have returned, a
credential of the sender, and a body."""

from __future__ import annotations

import socket
import struct
from typing import Any, NamedTuple

from sil.slurm.protocol.authentication import Authentication
from sil.slurm.protocol.records import (
    Energy,
    EnergyOfNode,
    NetworkAddress,
    Pinged,
    ReturnCode,
    address,
    record,
)
from sil.slurm.protocol.releases import (
    BEFORE_REGISTRATION,
    BODIES,
    INVALID_ARGUMENT,
    SUCCESS,
    V22_05,
    V23_11,
    V24_11,
    MessageType,
    ProtocolError,
    UnsupportedVersion,
    check_version,
    name_of,
    type_of,
)
from sil.slurm.protocol.submission import node_names
from sil.slurm.protocol.wire import Reader, Wire, Writer, listed, text, u16, u32

LONGEST = 64 << 20
"""The longest message, in bytes; a longer one is malformed."""
NO_CREDENTIAL, HAS_ADDRESSES = 1 << 6, 1 << 7
"""Flags: no credential is between header and body (of answers, since 24.05); addresses of nodes with a
credential are in the header (since 23.11)."""
_HTTP = 0x48545450
"""Replaces a length: since 25.11, a controller answers so what it does not understand."""


class Forward(NamedTuple):
    """The further nodes to which the receiver passes a message on: how many, and their names in brackets."""

    n_nodes: int
    nodes: str | None = None
    timeout_ms: int = 0
    tree_width: int = 0
    tree_depth: int = 0


class Returned(NamedTuple):
    """What one of the nodes to which a message was forwarded has answered. `error` says whether it was
    reached."""

    node: str | None
    body: Any
    type: int
    error: int = 0


class Unknown(NamedTuple):
    """The body of a message of which the layout is not known here."""

    packed: bytes


class SlurmMessage(NamedTuple):
    type: int
    body: Any
    version: int = V22_05
    flags: int = 0
    forward: Forward | None = None
    returned: tuple[Returned, ...] = ()
    origin: NetworkAddress | None = None
    credential: Any = None
    """The credential of a received message; one that is sent gets a new one."""


def message(body: Any, type: MessageType | None = None, version: int = V22_05) -> SlurmMessage:
    """A message to be sent. Its type is needed only if several have the layout of the body."""
    return SlurmMessage(type_of(body) if type is None else type, body, version)


def encode(message: SlurmMessage, authentication: Authentication) -> bytes:
    """The message as it is sent: its length and all parts. Raises ProtocolError for what cannot be packed."""
    version = message.version
    check_version(version)
    header, body = Writer(version), Writer(version)
    _body(body, message.type, message.body)
    length = sum(map(len, body.parts))
    _header(header, message, length)
    sender = b"" if message.flags & NO_CREDENTIAL else authentication.packed(message.type, version)
    whole = b"".join([*header.parts, sender, *body.parts])
    if len(whole) > LONGEST:
        raise ProtocolError(
            f"{name_of(message.type)} has {len(whole):,} bytes; at most {LONGEST:,} can be sent"
        )
    return struct.pack(">I", len(whole)) + whole


def decode(data: bytes, authentication: Authentication) -> SlurmMessage:
    """The message in what follows its length. Raises ProtocolError, or UnsupportedVersion, which is one."""
    if len(data) < 2:
        raise ProtocolError(f"a message of {len(data)} bytes has no header")
    (version,) = struct.unpack_from(">H", data)
    check_version(version)
    if version >= V23_11 and len(data) >= 4 and data[3] & HAS_ADDRESSES:
        raise ProtocolError("a message has addresses of nodes, which only nodes in a cloud need")
    wire = Reader(data, version)
    found, length = _header(wire, SlurmMessage(0, None), 0)
    name = name_of(found.type)
    if not found.flags & NO_CREDENTIAL:
        if len(data) - wire.at < 4:
            raise ProtocolError(f"{name} ends within the credential")
        found = found._replace(credential=authentication.read(wire))
    if (left := len(data) - wire.at) != length:
        raise ProtocolError(f"{name} has a body of {left:,} bytes instead of {length:,}")
    body = _body(wire, found.type, None)
    if wire.at != len(data):
        raise ProtocolError(f"{name} has {len(data) - wire.at:,} bytes after its last field")
    return found._replace(body=body)


def length_of(prefix: bytes) -> int:
    """The length of the message that follows these four bytes. Raises ProtocolError if it is out of
    bounds."""
    if len(prefix) != 4:
        raise ProtocolError(f"a message ends after {len(prefix)} of the 4 bytes of its length")
    (length,) = struct.unpack(">I", prefix)
    if length == _HTTP:
        raise UnsupportedVersion("the controller does not speak the version of the protocol that it is sent")
    if not 0 < length <= LONGEST:
        raise ProtocolError(f"a message claims {length:,} bytes; it has 1 to {LONGEST:,}")
    return int(length)


def _header(wire: Wire, message: SlurmMessage, body_length: int) -> tuple[SlurmMessage, int]:
    """Pack a header, or read it: the message without its body, and the length of that."""
    try:
        version, flags = u16(wire, message.version), u16(wire, message.flags)
        if version < V22_05:
            u16(wire, 0)  # the number of a plug-in
        number, length = u16(wire, message.type), u32(wire, body_length)
        forward = _forward(wire, message.forward)
        returned = listed(_returned, u16)(wire, message.returned)
        return SlurmMessage(
            number, None, version, flags, forward, returned, address(wire, message.origin)
        ), length
    except ProtocolError as error:
        raise ProtocolError(f"the header of a message: {error}") from None


def _forward(wire: Wire, value: Forward | None) -> Forward | None:
    """The nodes to forward to; None if their number is 0."""
    given = value or Forward(0)
    n_nodes = u16(wire, given.n_nodes)
    if not n_nodes:
        return None
    nodes, timeout_ms = text(wire, given.nodes), u32(wire, given.timeout_ms)
    width, has_depth = u16(wire, given.tree_width), wire.version >= V24_11
    return Forward(n_nodes, nodes, timeout_ms, width, u16(wire, given.tree_depth) if has_depth else 0)


def _returned(wire: Wire, value: Returned | None) -> Returned:
    given = value or Returned(None, None, 0)
    error, number, node = u32(wire, given.error), u16(wire, given.type), text(wire, given.node)
    if number not in BODIES:
        raise ProtocolError(f"a node has returned message {number}, which is not known")
    return Returned(node, _body(wire, number, given.body), number, error)


_IN_ALL_VERSIONS = ("Empty", "KillJob", "Pinged", "ReturnCode")


def _body(wire: Wire, number: int, body: Any) -> Any:
    name = BODIES.get(number)
    if isinstance(body, Unknown):
        return wire.octets(len(body.packed), body.packed)
    if isinstance(wire, Writer) and type(body).__name__ != name:
        raise ProtocolError(f"{name_of(number)} cannot have a body of {type(body).__name__}")
    if isinstance(wire, Reader) and name is None:
        return Unknown(wire.octets(len(wire.data) - wire.at, b""))
    if wire.version in BEFORE_REGISTRATION and name not in _IN_ALL_VERSIONS:
        raise UnsupportedVersion(
            f"{name_of(number)} has protocol version {wire.version}, which is supported "
            f"only until a node has registered; register it before the controller uses it"
        )
    return record(name or "")(wire, body)


def receive(connection: socket.socket, authentication: Authentication) -> SlurmMessage:
    """The next message. Raises ProtocolError if it cannot be read, and OSError for a fault of the
    connection."""
    return decode(_bytes(connection, length_of(_bytes(connection, 4))), authentication)


def send(connection: socket.socket, message: SlurmMessage, authentication: Authentication) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(encode(message, authentication))


def _bytes(connection: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        part = connection.recv(min(length - len(found), 1 << 20))
        if not part:
            raise ProtocolError(f"the connection ended after {len(found):,} of {length:,} bytes of a message")
        found += part
    return bytes(found)


NEVER_ANSWERED = (
    MessageType.REQUEST_SHUTDOWN,
    MessageType.REQUEST_RECONFIGURE,
    MessageType.REQUEST_RECONFIGURE_WITH_CONFIG,
)
"""The controller waits for no answer to these."""


def reply(request: SlurmMessage, first: str = "", code: int | None = None) -> SlurmMessage:
    """The reply of the node `first` to a request, with those of all nodes to which it is forwarded: as if
    these were reached, so that one reply is enough. All goes well on them, unless they answer with a `code`.
    Raises ProtocolError if their names cannot be read."""
    others = node_names(request.forward.nodes) if request.forward else []
    body, *bodies = (_answer(request, node, code) for node in (first, *others))
    returned = (Returned(node, one, type_of(one)) for node, one in zip(others, bodies, strict=True))
    return SlurmMessage(type_of(body), body, request.version, request.flags, returned=tuple(returned))


def _answer(request: SlurmMessage, node: str, code: int | None) -> Any:
    match request.type:
        case MessageType.REQUEST_PING | MessageType.REQUEST_NODE_REGISTRATION_STATUS:
            return Pinged()
        case MessageType.REQUEST_ACCT_GATHER_UPDATE:
            return EnergyOfNode(node, (Energy(),))
    if code is None:
        code = INVALID_ARGUMENT if isinstance(request.body, Unknown) else SUCCESS
    return ReturnCode(code)
