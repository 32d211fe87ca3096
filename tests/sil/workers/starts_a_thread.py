"""A library that starts a thread when it is imported, which holds a lock while it computes."""

from __future__ import annotations

import hashlib
import socket
import threading

LOCK = threading.Lock()
_is_held = threading.Event()


def _compute() -> None:
    with LOCK:
        _is_held.set()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 500_000)  # which releases the interpreter's own lock


def use(connection: socket.socket) -> None:
    """Send whether the lock can be had."""
    connection.sendall(b"y" if LOCK.acquire(timeout=5.0) else b"n")


threading.Thread(target=_compute, daemon=True).start()
_is_held.wait()
