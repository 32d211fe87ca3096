"""What a node answers to the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sil.slurm.protocol.envelope import Message, Returned, Unknown
from sil.slurm.protocol.from_nodes import EnergyOfNode, Pinged, ReturnCode
from sil.slurm.protocol.job_credential import node_names
from sil.slurm.protocol.message_types import MessageType, type_of
from sil.slurm.protocol.return_codes import INVALID_ARGUMENT, SUCCESS

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
