"""A scheduler over a real socket that answers as a test says."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
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
    is_over = threading.Event()
    with zmq.Context() as context, context.socket(zmq.REP) as bound:
        bound.setsockopt(zmq.LINGER, 0)
        port = bound.bind_to_random_port("tcp://127.0.0.1")
        thread = threading.Thread(target=_serve, args=(bound, answer, received, is_over))
        thread.start()
        try:
            yield f"batsim+tcp://127.0.0.1:{port}", received
        finally:
            is_over.set()
            thread.join()


def _serve(
    bound: zmq.Socket[bytes], answer: Answer, received: list[dict[str, Any]], is_over: threading.Event
) -> None:
    while not is_over.is_set():
        if not bound.poll(50):
            continue
        message = json.loads(bound.recv())
        received.append(message)
        reply = answer(message["now"], message["events"])
        if isinstance(reply, tuple):
            reply = json.dumps({"now": reply[0], "events": reply[1]})
        bound.send_multipart(reply if isinstance(reply, list) else [reply.encode()])


def by_script(script: Mapping[tuple[float, str], tuple[float, list[Event]]]) -> Answer:
    """At these times, to messages that begin with this type of event; else nothing, at once."""
    return lambda now_s, events: script.get((now_s, events[0]["type"]), (now_s, []))


def starting_at_once(later_s: float = 0.0) -> Answer:
    """First come, first served on the first nodes that are free and up, by a scheduler that thinks for some
    time."""
    waiting: list[tuple[str, int]] = []
    holding: dict[str, set[int]] = {}
    nodes = set[int]()

    def answer(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        decisions = []
        for event in events:
            data = event["data"]
            if event["type"] == "SIMULATION_BEGINS":
                nodes.update(range(data["nb_resources"]))
            elif event["type"] == "JOB_SUBMITTED":
                waiting.append((data["job_id"], data["job"]["res"]))
            elif event["type"] == "JOB_COMPLETED":
                del holding[data["job_id"]]
            elif data.get("type") == "event_machine_unavailable":
                nodes.discard(int(data["resources"]))
            elif data.get("type") == "event_machine_available":
                nodes.add(int(data["resources"]))
        done_s = now_s + (
            later_s if any(e["type"] in ("JOB_SUBMITTED", "JOB_COMPLETED") for e in events) else 0.0
        )
        while waiting:
            job_id, size = waiting[0]
            free = sorted(nodes - set().union(*holding.values()))
            if len(free) < size:
                break
            waiting.pop(0)
            holding[job_id] = set(free[:size])
            alloc = " ".join(map(str, free[:size]))
            decisions.append(decision(done_s, "EXECUTE_JOB", job_id=job_id, alloc=alloc))
        return done_s, decisions

    return answer


if __name__ == "__main__":
    at_once, end = starting_at_once(), threading.Event()

    def until_the_end(now_s: float, events: list[Event]) -> tuple[float, list[Event]]:
        for event in events:
            if event["type"] == "SIMULATION_BEGINS":
                print(event["data"]["nb_resources"], "machines")
            elif event["type"] == "SIMULATION_ENDS":
                end.set()
        return at_once(now_s, events)

    with zmq.Context() as context, context.socket(zmq.REP) as listening:
        listening.bind(sys.argv[1])
        _serve(listening, until_the_end, [], end)
