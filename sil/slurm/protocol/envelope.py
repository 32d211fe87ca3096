"""Messages as a whole: their length, a header with the nodes to forward to and what these have returned, a
credential of the sender, and a body."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from sil.slurm.protocol.authentication import Authentication, Credential
from sil.slurm.protocol.codes import BODIES, INVALID_ARGUMENT, SUCCESS, MessageType, name_of, type_of
from sil.slurm.protocol.fields import U16, U32, Listed, ProtocolError, Text
from sil.slurm.protocol.job_credential import Address, PackedAddress, node_names
from sil.slurm.protocol.layouts import Before, Layout, Since, layout
from sil.slurm.protocol.node_messages import Empty, EnergyOfNode, KillJob, Pinged, ReturnCode
from sil.slurm.protocol.releases import (
    BEFORE_REGISTRATION,
    V22_05,
    V23_11,
    V24_11,
    UnsupportedVersion,
    check_version,
)

LONGEST = 64 << 20
"""In bytes; a longer message is malformed."""
NO_CREDENTIAL, HAS_ADDRESSES = 1 << 6, 1 << 7
"""Flags: no credential is between header and body (of answers, since 24.05); addresses of nodes with a
credential are in the header (since 23.11)."""
_HTTP = 0x48545450
"""In place of a length: since 25.11, a controller answers so what it does not understand."""


class Forward(NamedTuple):
    """The further nodes to which the receiver passes a message on: how many, and their names in brackets."""

    n_nodes: U16
    nodes: Text
    timeout_ms: U32
    tree_width: U16
    tree_depth: Annotated[U16, Since(V24_11, 0)] = 0


class Returned(NamedTuple):
    """What one of the nodes to which a message was forwarded has answered. `error` is that of reaching it."""

    node: str | None
    body: Any
    type: int
    error: int = 0


class Unknown(NamedTuple):
    """The body of a message of which the layout is not known here."""

    packed: bytes


class Message(NamedTuple):
    type: int
    body: Any
    version: int = V22_05
    flags: int = 0
    forward: Forward | None = None
    returned: tuple[Returned, ...] = ()
    origin: Address | None = None
    credential: Credential | None = None
    """Of a received message; one that is sent gets a new one."""


def message(body: Any, type: MessageType | None = None, version: int = V22_05) -> Message:
    """A message to be sent. Its type is needed only if several have the layout of the body."""
    return Message(type_of(body) if type is None else type, body, version)


def encode(message: Message, authentication: Authentication) -> bytes:
    """The message as it is sent: its length and all parts. Raises ProtocolError for what cannot be packed."""
    version = message.version
    check_version(version)
    body = _packed_body(message.type, message.body, version)
    header = _Header(
        *(version, message.flags, 0, message.type, len(body)),
        *(message.forward, message.returned, message.origin),
    )
    sender = b"" if message.flags & NO_CREDENTIAL else authentication.packed(message.type, version)
    parts = [layout(_Header, version).write(header), sender, body]
    length = sum(map(len, parts))
    if length > LONGEST:
        raise ProtocolError(f"{name_of(message.type)} has {length:,} bytes; at most {LONGEST:,} can be sent")
    return b"".join([struct.pack(">I", length), *parts])


def decode(data: bytes, authentication: Authentication) -> Message:
    """The message in what follows its length. Raises ProtocolError, or UnsupportedVersion, which is one."""
    if len(data) < 2:
        raise ProtocolError(f"a message of {len(data)} bytes has no header")
    (version,) = struct.unpack_from(">H", data)
    check_version(version)
    if version >= V23_11 and len(data) >= 4 and data[3] & HAS_ADDRESSES:
        raise ProtocolError("a message has addresses of nodes, which only nodes in a cloud need")
    header, at = layout(_Header, version).read(data, 0)
    credential = None
    try:
        if not header.flags & NO_CREDENTIAL:
            credential, at = authentication.read(data, at, version)
    except struct.error:
        raise ProtocolError(f"{name_of(header.type)} ends within the credential") from None
    if len(data) - at != header.body_length:
        raise ProtocolError(
            f"{name_of(header.type)} has a body of {len(data) - at:,} bytes instead of {header.body_length:,}"
        )
    body, end = _read_body(header.type, data, at, version)
    if end != len(data):
        raise ProtocolError(f"{name_of(header.type)} has {len(data) - end:,} bytes after its last field")
    return Message(
        *(header.type, body, version, header.flags),
        *(header.forward, header.returned, header.origin, credential),
    )


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


def _packed_body(number: int, body: Any, version: int) -> bytes:
    if isinstance(body, Unknown):
        return body.packed
    if BODIES.get(number) is not type(body):
        raise ProtocolError(f"{name_of(number)} cannot have a body of {type(body).__name__}")
    return _layout(number, type(body), version).write(body)


def _read_body(number: int, data: bytes, at: int, version: int) -> tuple[Any, int]:
    record = BODIES.get(number)
    if record is None:
        return Unknown(data[at:]), len(data)
    return _layout(number, record, version).read(data, at)


_IN_ALL_VERSIONS = (Empty, KillJob, Pinged, ReturnCode)


def _layout(number: int, record: Any, version: int) -> Layout:
    if version in BEFORE_REGISTRATION and record not in _IN_ALL_VERSIONS:
        raise UnsupportedVersion(
            f"{name_of(number)} has protocol version {version}, which is supported "
            f"only until a node has registered; register it before the controller uses it"
        )
    return layout(record, version)


class _Forwarding:
    """A Forward; none if the number of nodes is 0."""

    def write(self, value: Forward | None, version: int) -> bytes:
        return b"\0\0" if value is None else layout(Forward, version).write(value)

    def read(self, data: bytes, at: int, version: int) -> tuple[Forward | None, int]:
        if data[at : at + 2] == b"\0\0":
            return None, at + 2
        return layout(Forward, version).read(data, at)


class _Answered(NamedTuple):
    """As `Returned`, up to its body."""

    error: U32
    type: U16
    node: Text


class _Return:
    """A Returned."""

    def write(self, value: Returned, version: int) -> bytes:
        answered = _Answered(value.error, value.type, value.node)
        return layout(_Answered, version).write(answered) + _packed_body(value.type, value.body, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Returned, int]:
        answered, at = layout(_Answered, version).read(data, at)
        if answered.type not in BODIES:
            raise ProtocolError(f"a node has returned message {answered.type}, which is not known")
        body, at = _read_body(answered.type, data, at, version)
        return Returned(answered.node, body, answered.type, answered.error), at


class _Header(NamedTuple):
    version: U16
    flags: U16
    plugin_index: Annotated[U16, Before(V22_05, 0)]
    type: U16
    body_length: U32
    forward: Annotated[Forward | None, _Forwarding()]
    returned: Annotated[tuple[Returned, ...], Listed(_Return(), "H")]
    origin: PackedAddress


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


Answer = Callable[[str], Any]
"""The body with which a node answers, from its name."""

NEVER_ANSWERED = (
    MessageType.REQUEST_SHUTDOWN,
    MessageType.REQUEST_RECONFIGURE,
    MessageType.REQUEST_RECONFIGURE_WITH_CONFIG,
)
"""The controller waits for no answer to these."""


def usual_answer(request: Message) -> Answer:
    """That of a node on which all goes well; an error if the request is not known here."""
    match request.type:
        case MessageType.REQUEST_PING | MessageType.REQUEST_NODE_REGISTRATION_STATUS:
            return lambda node: Pinged()
        case MessageType.REQUEST_ACCT_GATHER_UPDATE:
            return EnergyOfNode
    code = INVALID_ARGUMENT if isinstance(request.body, Unknown) else SUCCESS
    return lambda node: ReturnCode(code)


def reply(request: Message, answer: Answer, first: str = "") -> Message:
    """The reply of the node `first` to a request, with those of all nodes to which it is forwarded: as if
    these were reached, so that one reply is enough. Raises ProtocolError if their names cannot be read."""
    body = answer(first)
    others = node_names(request.forward.nodes) if request.forward else []
    bodies = [answer(node) for node in others]
    returned = (Returned(node, one, type_of(one)) for node, one in zip(others, bodies, strict=True))
    return Message(type_of(body), body, request.version, request.flags, returned=tuple(returned))
