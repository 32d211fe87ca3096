"""The network of live nodes: a namespace for each, joined by a bridge, where this user may make them, as root
may; else loopback addresses."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from scheduler import UserError
from sil.live.programs import Address

PORT = 20_000
"""That of the daemon, and of the first run; later ones have the next."""
IN_NAMESPACE = ("unshare", "--net")
"""Begins the command of a process that has a namespace of its own, which ends with it."""
MAX_NETWORKS = 100


def may_have_namespaces() -> bool:
    """Whether this user may make network namespaces, and the tools are there: those of util-linux and
    iproute2."""
    command = [*IN_NAMESPACE, "nsenter", "ip", "link", "set", "lo", "up"]
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    return False


def joined(pids: Sequence[int]) -> list[Address]:
    """Join the namespaces of processes by Ethernet, with a bridge in the first one. Returns their addresses.
    Raises UserError."""
    hosts = [f"10.0.{n // 256}.{n % 256}" for n in range(1, len(pids) + 1)]
    bridge = ["link add lan type bridge forward_delay 0"]
    for n, pid in enumerate(pids[1:], 1):
        bridge += [f"link add n{n} type veth peer name lan netns {pid}", f"link set n{n} master lan up"]
    for pid, host in zip(pids, hosts, strict=True):
        commands = [*bridge, f"address add {host}/16 dev lan", "link set lan up", "link set lo up"]
        bridge = []
        text, command = "\n".join(commands), ["nsenter", f"--net=/proc/{pid}/ns/net", "ip", "-batch", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"the nodes cannot be joined to a network ({' '.join(done.stderr.split())})")
    return [(host, PORT) for host in hosts]


def loopback(n: int) -> list[Address]:
    """A loopback address of its own for each of so many nodes. Raises UserError."""
    for network in range(os.getpid(), os.getpid() + MAX_NETWORKS):  # others use some
        found = [(f"127.{1 + network // 256 % 254}.{network % 256}.{node}", PORT) for node in range(1, n + 1)]
        with ExitStack() as opened, suppress(OSError):
            for address in found:
                opened.enter_context(socket.socket(type=socket.SOCK_DGRAM)).bind(address)
            return found
    raise UserError(f"there are no free loopback addresses 127.x.y.1 to 127.x.y.{n} with port {PORT}")
