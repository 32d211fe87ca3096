"""The network between a writer and a server: it cuts connections anywhere, delivers late, and is slow."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from threading import Thread
from time import sleep

from site_db.store import Address

LATE_S = 0.03
PIECE = 40
"""Bytes that a slow network delivers at a time."""


class Trouble(Enum):
    """What becomes of a connection after so many bytes."""

    CUT_TO_SERVER = auto()  # the server gets no more of what the writer sent
    CUT_TO_WRITER = auto()  # the server got all, but its answer is cut
    LATE = auto()  # the writer is cut off, and the server gets all that it sent, but later
    SLOW = auto()  # from then on, piece by piece


@dataclass(frozen=True)
class Fate:
    trouble: Trouble
    after_bytes: int


@contextmanager
def troubled(address: Address, fates: Sequence[Fate]) -> Iterator[Address]:
    """The address of a server behind a network with a fate for each of the first connections."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        Thread(target=_accept, args=(listening, _server_of(address), iter(fates)), daemon=True).start()
        host, port = listening.getsockname()
        yield Address(address.url.set(host=host, port=port, query={}))
        listening.shutdown(socket.SHUT_RDWR)


def _server_of(address: Address) -> str:
    host = address.url.host or address.url.query["host"]
    return str(Path(str(host)) / f".s.PGSQL.{address.url.port or 5432}")


def _accept(listening: socket.socket, path: str, fates: Iterator[Fate]) -> None:
    with suppress(OSError):
        while True:
            writer, _ = listening.accept()
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(path)
            except OSError:  # it is down
                writer.close()
                continue
            fate = next(fates, None)
            for of, to in ((writer, server), (server, writer)):
                Thread(target=_forward, args=(of, to, writer, fate), daemon=True).start()


def _forward(of: socket.socket, to: socket.socket, writer: socket.socket, fate: Fate | None) -> None:
    """Pass on what comes until an end closes the connection, or its fate does."""
    rest = fate.after_bytes if fate and (fate.trouble is Trouble.CUT_TO_WRITER) == (to is writer) else None
    with suppress(OSError):
        while data := of.recv(1 << 16):
            if rest is None or len(data) < rest:
                to.sendall(data)
                rest = None if rest is None else rest - len(data)
                continue
            assert fate is not None
            match fate.trouble:
                case Trouble.SLOW:
                    for k in range(0, len(data), PIECE):
                        to.sendall(data[k : k + PIECE])
                        sleep(1e-4)
                    continue
                case Trouble.LATE:
                    _close(writer)
                    sleep(LATE_S)
                    to.sendall(data)
                case _:
                    to.sendall(data[:rest])
            break
    _close(of)
    _close(to)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
