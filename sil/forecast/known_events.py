"""What operators and users did up to a moment, and what is known to come, for jobs that run on from there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sil.settings.log_events import Events, NodeEvent, NodesUpdated, jobs_in, with_names


def up_to(events: Events, now_s: float) -> Events:
    """Without what is not known yet: later events, except for the ends of what has begun."""
    past = [each for each in events.on_nodes if each.at_s <= now_s]
    begun = {each.nodes for each in past if isinstance(each, NodesUpdated)}
    ends = (x for x in events.on_nodes[len(past) :] if isinstance(x, NodesUpdated) and x.state == "RESUME")
    on_jobs = tuple(each for each in events.on_jobs if each.at_s <= now_s)
    return replace(events, on_nodes=(*past, *(x for x in ends if x.nodes in begun)), on_jobs=on_jobs)


def going_on(
    events: Events, begin_s: float, now_s: float, closed_s: float | None, number_of: Mapping[int, int]
) -> Events:
    """The events in seconds since `begin_s`, when what runs now starts, if no job starts from `closed_s`
    until now, unless that is None. Jobs have other numbers."""
    names, options = {job: str(number) for job, number in number_of.items()}, dict[int, dict[str, Any]]()
    for job in events.options.keys() & number_of.keys():
        options[number_of[job]] = given = dict(events.options[job])
        on = given.pop("dependency", "")
        given |= {"dependency": with_names(on, names)} if on and jobs_in(on) <= names.keys() else {}
        given |= {"begin": given["begin"] - begin_s} if "begin" in given else {}
    on_nodes, events = _on_nodes(events, begin_s, now_s, closed_s), events.of_places(number_of)
    return replace(
        events,
        on_nodes=tuple(
            each._replace(
                **{name: getattr(each, name) - begin_s for name in each._fields if name[-2:] == "_s"}
            )
            for each in on_nodes
        ),
        on_jobs=tuple(
            each._replace(at_s=max(each.at_s, now_s) - begin_s)
            for each in events.on_jobs
            if each.at_s > now_s or each.act in ("hold", "release")
        ),
        options=options,
        conditions={job: x._replace(begin_s=x.begin_s - begin_s) for job, x in events.conditions.items()},
    )


def _on_nodes(events: Events, begin_s: float, now_s: float, closed_s: float | None) -> Iterator[NodeEvent]:
    """No job runs on nodes that are down now, and none starts on those that are drained."""
    down = {x.nodes for x in events.on_nodes if isinstance(x, NodesUpdated) and x.state == "DOWN"}
    past = [
        each._replace(state="DRAIN" if each.state == "DOWN" else each.state)
        for each in events.on_nodes
        if isinstance(each, NodesUpdated) and each.at_s <= now_s
    ]
    yield from (each._replace(at_s=begin_s) for each in past if each.nodes in down)
    if closed_s is not None:
        yield from (NodesUpdated(closed_s, "ALL", "DRAIN"), NodesUpdated(now_s, "ALL", "RESUME"))
    yield from (each._replace(at_s=now_s) for each in past)
    for each in events.on_nodes:
        if not isinstance(each, NodesUpdated) and each.at_s <= now_s < each.end_s:
            yield each._replace(at_s=now_s, start_s=max(each.start_s, now_s))
    yield from (each for each in events.on_nodes if each.at_s > now_s)
