"""A scheduler over a real socket that answers as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import zmq

Event = dict[str, Any]
Answer = Callable[[float, list[Event]], tuple[float, list[Event]] | str | list[bytes]]
"""Given the time and the events of a message: when it is done, and its decisions; or just a text, or the
parts of a message."""


def decision(time_s: float, kind: str, **data: Any) -> Event:
    return {"timestamp": time_s, "type": kind, "data": data}


@contextmanager
def scheduler(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The name under which it can be reached, and the messages that it was sent."""
    received: list[dict[str, Any]] = []
    context = zmq.Context()
    bound = context.socket(zmq.REP)
    bound.setsockopt(zmq.LINGER, 0)
    port = bound.bind_to_random_port("tcp://127.0.0.1")
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            if not bound.poll(50):
                continue
            message = json.loads(bound.recv())
            received.append(message)
            reply = answer(message["now"], message["events"])
            if isinstance(reply, list):
                bound.send_multipart(reply)
                continue
            if not isinstance(reply, str):
                reply = json.dumps({"now": reply[0], "events": reply[1]})
            bound.send_string(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"batsim+tcp://127.0.0.1:{port}", received
    finally:
        is_over.set()
        thread.join()
        bound.close()
        context.term()


def starting_at_once(later_s: float = 0.0) -> Answer:
    """First come, first served on nodes 0 and up, by a scheduler that thinks for so long."""
    waiting: list[tuple[str, int]] = []
    holding: dict[str, set[int]] = {}
    n_nodes = 0

    def answer(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        nonlocal n_nodes
        decisions = []
        for event in events:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                n_nodes = data["nb_resources"]
            elif event["type"] == "JOB_SUBMITTED":
                waiting.append((data["job_id"], data["job"]["res"]))
            elif event["type"] == "JOB_COMPLETED":
                del holding[data["job_id"]]
        done_s = now_s + (
            later_s if any(e["type"] in ("JOB_SUBMITTED", "JOB_COMPLETED") for e in events) else 0.0
        )
        while waiting:
            job_id, size = waiting[0]
            free = sorted(set(range(n_nodes)) - set().union(*holding.values()))
            if len(free) < size:
                break
            waiting.pop(0)
            holding[job_id] = set(free[:size])
            alloc = " ".join(map(str, free[:size]))
            decisions.append(decision(done_s, "EXECUTE_JOB", job_id=job_id, alloc=alloc))
        return done_s, decisions

    return answer
