"""The socket to a scheduler: one request, one reply."""

from __future__ import annotations

import time
from collections.abc import Callable

import zmq

LOOK_EVERY_MS = 200


class NoReply(Exception):
    """The scheduler has ended or does not answer in time. The message is a sentence."""

    def __init__(self, message: str, is_gone: bool) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class Endpoint:
    """Sends requests to the scheduler at `address`. `how_it_ended` describes the end of its process."""

    def __init__(
        self, address: str, limit_s: float, how_it_ended: Callable[[], str | None] = lambda: None
    ) -> None:
        self._address = address
        self._limit_s = limit_s
        self._how_it_ended = how_it_ended
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(address)

    def ask(self, request: str) -> str:
        """Raises NoReply."""
        self._socket.send_string(request)
        deadline_s = time.monotonic() + self._limit_s
        while not self._socket.poll(LOOK_EVERY_MS):
            ended = self._how_it_ended()
            if ended is not None and not self._socket.poll(LOOK_EVERY_MS):
                raise NoReply(ended, is_gone=True)
            if time.monotonic() > deadline_s:
                raise NoReply(f"no answer from {self._address} within {self._limit_s:g} s", is_gone=False)
        return self._socket.recv().decode(errors="replace")

    def close(self) -> None:
        self._socket.close()
        self._context.term()
