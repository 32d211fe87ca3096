"""The Cooperating Scheme: what the nodes of a job know of one another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from scheduler.coscheduling.ports import PeerEvent, Peers, Topic
from scheduler.model import RunId

_REVOKES = {Topic.NO_LOCAL: Topic.LOCAL, Topic.RESTART: Topic.STOP}


class Cooperating:
    """Tells the other nodes of a run what happens here, and keeps what they tell: a run is stopped while at
    least one of its nodes stops it, and limited while a local user is at one of them.

    Source: CISNE-P, sections 2.2 and 2.2.1.
    """

    def __init__(self, node: int, peers: Peers) -> None:
        self._node, self._peers = node, peers
        self._sent = 0
        self._valid: dict[Topic, dict[RunId, set[int]]] = {
            topic: defaultdict(set) for topic in _REVOKES.values()
        }
        """The nodes that have told it of a run and not revoked it, this one included."""
        self._latest: dict[tuple[RunId, int, Topic], int] = {}
        self.stops_any = False
        """Whether a run here may be stopped."""

    def tell(self, topic: Topic, run: RunId) -> None:
        self._sent += 1
        event = PeerEvent(topic, run, self._node, self._sent)
        self.receive(event)
        for node in self._peers.nodes_of(run):
            if node != self._node:
                self._peers.send(node, event)

    def receive(self, event: PeerEvent) -> None:
        topic = _REVOKES.get(event.topic, event.topic)
        key = event.run, event.sender, topic
        if event.number <= self._latest.get(key, 0):
            return
        self._latest[key] = event.number
        nodes = self._valid[topic][event.run]
        if event.topic is topic:
            nodes.add(event.sender)
        else:
            nodes.discard(event.sender)
        self.stops_any = any(self._valid[Topic.STOP].values())

    def is_stopped(self, run: RunId) -> bool:
        return self.stops_any and bool(self._valid[Topic.STOP][run])

    def is_limited(self, run: RunId) -> bool:
        return bool(self._valid[Topic.LOCAL][run])

    def told(self, topic: Topic, run: RunId) -> bool:
        """Whether this node has told of a run, LOCAL or STOP, and not revoked it."""
        return self._node in self._valid[topic][run]

    def forget(self, runs: Collection[RunId]) -> None:
        """These runs have ended."""
        for nodes_of in self._valid.values():
            for run in runs:
                nodes_of.pop(run, None)
        self.stops_any = any(self._valid[Topic.STOP].values())
        for key in [key for key in self._latest if key[0] in runs]:
            del self._latest[key]
