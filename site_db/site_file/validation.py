"""What does not fit together in a site: names that are doubled or lead nowhere, and what cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice

from site_db.site_file.tables import SiteFile
from site_db.toml_file import Location

Problem = tuple[Location, str]


def problems(site: SiteFile) -> Iterator[Problem]:
    """Where names are doubled or lead nowhere, and what cannot run: (place in the file, sentence)."""
    for kind, singular in _SINGULAR.items():
        tables = getattr(site, kind)
        yield from _twice(singular, (((kind, k, "name"), table.name) for k, table in enumerate(tables)))
    yield from _of_machines(site)
    yield from _of_clusters(site)
    yield from _of_job_classes(site)
    yield from _of_queues(site)
    yield from _of_users(site)


_SINGULAR = {
    "machine_classes": "machine class",
    "interconnects": "interconnect",
    "clusters": "cluster",
    "job_classes": "job class",
    "queues": "queue",
    "users": "user",
}


def _of_machines(site: SiteFile) -> Iterator[Problem]:
    machine_classes = _known(table.name for table in site.machine_classes)
    interconnects = _known(table.name for table in site.interconnects)
    yield from _twice(
        "machine",
        (
            (("machines", k, "names", name), name)
            for k, group in enumerate(site.machines)
            for name in group.names
        ),
    )
    for k, group in enumerate(site.machines):
        place, who = ("machines", k), f"the group of machines {k + 1}"
        kind = [group.machine_class]
        yield from _unknown((*place, "machine_class"), who, kind, "machine class", machine_classes)
        at = (*place, "interconnects")
        yield from _named_twice(at, who, group.interconnects, "interconnect")
        yield from _unknown(at, who, group.interconnects, "interconnect", interconnects)
    if not site.machine_names:
        yield ("machines",), "the site has no machines"


def _of_clusters(site: SiteFile) -> Iterator[Problem]:
    machines, interconnects = (
        _known(site.machine_names),
        _known(table.name for table in site.interconnects),
    )
    memory_mb = {name: group.memory_mb for group in site.machines for name in group.names}
    for k, cluster in enumerate(site.clusters):
        place, who = ("clusters", k), f"cluster '{cluster.name}'"
        if cluster.name in machines:
            yield (*place, "name"), f"'{cluster.name}' is the name of a machine and of a cluster"
        if not cluster.members:
            yield (*place, "members"), f"{who} has no members"
        for key, names, what, known in (
            ("members", cluster.members, "machine", machines),
            ("interconnects", cluster.interconnects, "interconnect", interconnects),
        ):
            yield from _named_twice((*place, key), who, names, what)
            yield from _unknown((*place, key), who, names, what, known)
        if cluster.social_contract is not None:
            for name in cluster.members:
                if name in machines and memory_mb[name] is None:
                    yield (
                        (*place, "members", name),
                        f"{who} has a social contract, which shares out memory; give its member '{name}' a "
                        f"memory_mb",
                    )
                    break


def _of_job_classes(site: SiteFile) -> Iterator[Problem]:
    machine_classes = _known(table.name for table in site.machine_classes)
    with_machines = {group.machine_class for group in site.machines if group.names}
    clusters = _known(table.name for table in site.clusters)
    for k, job_class in enumerate(site.job_classes):
        place, who = ("job_classes", k), f"job class '{job_class.name}'"
        for key, names, what, known in (
            ("sequential_s", job_class.sequential_s, "machine class", machine_classes),
            ("parallel_s", job_class.parallel_s, "cluster", clusters),
            ("commands", job_class.commands, "machine class", machine_classes),
            ("parallel_commands", job_class.parallel_commands, "cluster", clusters),
            ("preferred", job_class.preferred, "machine class", machine_classes),
        ):
            yield from _named_twice((*place, key), who, names, what)
            yield from _unknown((*place, key), who, names, what, known)
        sizes = [table.tasks for table in job_class.in_isolation]
        for n, tasks in enumerate(sizes):
            if tasks in sizes[:n]:
                at = (*place, "in_isolation", n, "tasks")
                yield at, f"{who} was measured in isolation twice with {tasks} tasks; keep one of them"
        parallel = job_class.parallel_s or job_class.parallel_commands
        sequential = job_class.sequential_s.keys() | job_class.commands.keys()
        if not sizes and not parallel and with_machines.isdisjoint(sequential):
            yield (
                (*place, "sequential_s"),
                f"{who} has no machine that can run it; give it a time in sequential_s for a class that "
                f"has machines ({', '.join(sorted(with_machines))}), or in parallel_s for a "
                f"cluster, or in_isolation for shared nodes",
            )


def _of_queues(site: SiteFile) -> Iterator[Problem]:
    queues = _known(table.name for table in site.queues)
    for k, queue in enumerate(site.queues):
        place, who = ("queues", k), f"queue '{queue.name}'"
        yield from _named_twice((*place, "users"), who, queue.users or (), "user")
        yield from _named_twice((*place, "displaces"), who, queue.displaces, "queue")
        yield from _unknown((*place, "displaces"), who, queue.displaces, "queue", queues)
        if queue.name in queue.displaces:
            yield (*place, "displaces", queue.name), f"{who} cannot displace itself"
        # The jobs of displaced runs rejoin their queue in the same round.
        before = {q.name for n, q in enumerate(site.queues) if (-q.priority, n) < (-queue.priority, k)}
        for name in queue.displaces:
            if name in before:
                yield (
                    (*place, "displaces", name),
                    f"{who} displaces '{name}', which is served before it; give it a higher priority",
                )


def _of_users(site: SiteFile) -> Iterator[Problem]:
    queues, users = _known(q.name for q in site.queues), _known(u.name for u in site.users)
    for k, user in enumerate(site.users):
        place, who = ("users", k), f"user '{user.name}'"
        yield from _named_twice((*place, "queues"), who, user.queues or (), "queue")
        yield from _unknown((*place, "queues"), who, user.queues or (), "queue", queues)
        at = (*place, "may_submit_as")
        yield from _named_twice(at, who, [right.user for right in user.may_submit_as], "user")
        for n, right in enumerate(user.may_submit_as):
            yield from _unknown((*at, n, "user"), who, [right.user], "user", users)
            yield from _named_twice((*at, n, "queues"), who, right.queues or (), "queue")
            yield from _unknown((*at, n, "queues"), who, right.queues or (), "queue", queues)
            if right.user == user.name:
                yield (*at, n, "user"), f"{who} may submit as themselves without being told so"


Known = Mapping[str, None]
"""Names in the order of the file, found at once: a site may have 100,000 machines."""


def _known(names: Iterable[str]) -> Known:
    return dict.fromkeys(names)


def _twice(what: str, named: Iterable[tuple[Location, str]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield place, f"{what} '{name}' is named twice"
        seen.add(name)


def _named_twice(place: Location, who: str, names: Iterable[str], what: str) -> Iterator[Problem]:
    for at, sentence in _twice(what, (((*place, name), name) for name in names)):
        yield at, f"{who}: {sentence}"


def _unknown(place: Location, who: str, names: Iterable[str], what: str, known: Known) -> Iterator[Problem]:
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            few = ", ".join(islice(known, 5)) + (", ..." if len(known) > 5 else "")
            hint = f"did you mean '{close[0]}'?" if close else f"the site has {few or 'none'}"
            yield (*place, name), f"{who} names the {what} '{name}', which does not exist; {hint}"
