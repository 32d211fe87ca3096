"""Errors of a site that concern several of its tables: doubled or unknown names, and jobs that cannot run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from scheduler.messages import meant
from site_db.files.toml_file import Location
from site_db.site_file.machine_names import machine_of_slot
from site_db.site_file.relations import KINDS
from site_db.site_file.tables import SiteFile

Error = tuple[Location, str]
"""A place in the site file and a sentence."""
Names = Mapping[str, None]
"""Names in the order of the file, found at once: a site may have 100,000 machines."""


def errors(site: SiteFile) -> Iterator[Error]:
    known: dict[str, Names] = {}
    for kind in KINDS:
        named = [*_named(site, kind)]
        yield from _twice(KINDS[kind].singular, named)
        known[kind] = dict.fromkeys(name for _, name in named)
    for kind in KINDS:
        yield from _of_references(site, kind, known)
    if not known["machines"]:
        yield ("machines",), "the site has no machines"
    yield from _like_slots(site)
    yield from _of_clusters(site, known["machines"])
    yield from _of_job_classes(site, known["machine_classes"])
    yield from _of_partitions(site)
    yield from _of_topology(site)
    yield from _of_queues(site)
    yield from _of_users(site, known)


def errors_of_file(site: SiteFile) -> Iterator[Error]:
    """As `errors`, and requests for several partitions of which only some exist. Jobs that request only
    partitions that are gone may be of the past (`never_satisfied`)."""
    yield from errors(site)
    known: dict[str, Names] = {"partitions": dict.fromkeys(table.name for table in site.partitions)}
    for k, job_class in enumerate(site.job_classes):
        names = () if job_class.request is None else job_class.request.partitions
        if not known["partitions"].keys().isdisjoint(names):
            place, who = ("job_classes", k, "request", "partitions"), f"job class '{job_class.name}'"
            yield from _unknown(place, who, names, "partitions", known)


def _named(site: SiteFile, kind: str) -> Iterator[tuple[Location, str]]:
    for k, table in enumerate(getattr(site, kind)):
        if kind == "machines":
            yield from (((kind, k, "names", name), name) for name in table.names)
        else:
            yield (kind, k, "name"), table.name


def slots_of(site: SiteFile) -> dict[str, int]:
    """The number of slots of each machine."""
    return {name: group.slots for group in site.machines for name in group.names}


def _of_references(site: SiteFile, kind: str, known: Mapping[str, Names]) -> Iterator[Error]:
    singular = KINDS[kind].singular
    for k, table in enumerate(getattr(site, kind)):
        who = f"the group of machines {k + 1}" if kind == "machines" else f"{singular} '{table.name}'"
        for key, other in KINDS[kind].references.values():
            yield from _unknown((kind, k, key), who, [getattr(table, key)], other, known)
        for relation in KINDS[kind].relations:
            for key, names_of in relation.names.items():
                names = getattr(table, key) or ()
                yield from _named_twice((kind, k, key), who, names, names_of or "users")
                if names_of:
                    yield from _unknown((kind, k, key), who, names, names_of, known)


def _like_slots(site: SiteFile) -> Iterator[Error]:
    """Machines and clusters with the names of slots, which traces could not tell apart."""
    slots = slots_of(site)
    for kind in ("machines", "clusters"):
        for place, name in _named(site, kind):
            machine = machine_of_slot(name, slots)
            if machine is not None:
                yield (
                    place,
                    f"the {KINDS[kind].singular} '{name}' has the name of a slot of the machine '{machine}', "
                    f"which has {slots[machine]} slots; rename it",
                )


def _of_clusters(site: SiteFile, machines: Names) -> Iterator[Error]:
    memory_mb = {name: group.memory_mb for group in site.machines for name in group.names}
    slots = slots_of(site)
    for k, cluster in enumerate(site.clusters):
        place, who = ("clusters", k), f"cluster '{cluster.name}'"
        if cluster.name in machines:
            yield (*place, "name"), f"'{cluster.name}' is the name of a machine and of a cluster"
        if not cluster.members:
            yield (*place, "members"), f"{who} has no members"
        n_slots = {slots[name]: name for name in cluster.members[::-1] if name in slots}
        if len(n_slots) > 1:
            few, many = sorted(n_slots)[:: len(n_slots) - 1]
            yield (
                (*place, "members", n_slots[many]),
                f"{who}: its members have different numbers of slots, {few} ('{n_slots[few]}') and {many} "
                f"('{n_slots[many]}'); give all of them equally many, or put them in different clusters",
            )
        if cluster.social_contract is not None:
            for name in cluster.members:
                if name in machines and memory_mb[name] is None:
                    yield (
                        (*place, "members", name),
                        f"{who} has a social contract, which shares out memory; give its member '{name}' a "
                        f"memory_mb",
                    )
                    break


def _of_job_classes(site: SiteFile, machine_classes: Names) -> Iterator[Error]:
    with_machines = {group.machine_class for group in site.machines if group.names}
    # Otherwise an error is reported already, which may be the cause.
    are_known = with_machines and with_machines <= machine_classes.keys()
    for k, job_class in enumerate(site.job_classes):
        place, who = ("job_classes", k), f"job class '{job_class.name}'"
        sizes = [table.tasks for table in job_class.in_isolation]
        for n, tasks in enumerate(sizes):
            if tasks in sizes[:n]:
                at = (*place, "in_isolation", n, "tasks")
                yield at, f"{who} was measured in isolation twice with {tasks} tasks; keep one of them"
        parallel = job_class.parallel_s or job_class.parallel_commands
        sequential = job_class.sequential_s.keys() | job_class.commands.keys()
        on_nodes = job_class.request is not None  # elsewhere, it counts with the mean of known places
        if are_known and not (sizes or parallel or on_nodes) and with_machines.isdisjoint(sequential):
            yield (
                (*place, "sequential_s"),
                f"{who} has no machine that can run it; give it a time in sequential_s for a class that "
                f"has machines ({', '.join(sorted(with_machines))}), or in parallel_s for a "
                f"cluster, or in_isolation for shared nodes",
            )


def _of_partitions(site: SiteFile) -> Iterator[Error]:
    if site.partitions and not any(partition.nodes for partition in site.partitions):
        sentence = 'no partition has nodes; give one of them some, like nodes = ["n[01-40]"]'
        yield ("partitions", 0, "nodes"), sentence
    for k, partition in enumerate(site.partitions):
        place, who = ("partitions", k), f"partition '{partition.name}'"
        default_s, most_s = partition.default_time_s, partition.max_time_s
        if default_s is not None and most_s is not None and default_s > most_s:
            yield (
                (*place, "default_time_s"),
                f"{who} has a default_time_s of {default_s:,g}; expected max_time_s, {most_s:,g}, or less",
            )


def _of_topology(site: SiteFile) -> Iterator[Error]:
    leaves = () if site.topology is None else site.topology.leaves
    for k, group in enumerate(site.machines):
        if group.switch and group.switch not in leaves:
            few = ", ".join(leaves[:5]) or "none"
            sentence = f"switch '{group.switch}' is no leaf of the topology; it has {few}"
            yield ("machines", k, "switch"), sentence
    for k, (_, below) in enumerate(() if site.topology is None else site.topology.above):
        if not below <= {*range(len(leaves))}:
            places = f"{sorted(below)}; expected places in leaves, from 0 to {len(leaves) - 1}"
            yield ("topology", "above", k), f"the leaves below a switch are {places}"


def _of_queues(site: SiteFile) -> Iterator[Error]:
    for k, queue in enumerate(site.queues):
        place, who = ("queues", k), f"queue '{queue.name}'"
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


def _of_users(site: SiteFile, known: Mapping[str, Names]) -> Iterator[Error]:
    for k, user in enumerate(site.users):
        at, who = ("users", k, "may_submit_as"), f"user '{user.name}'"
        yield from _named_twice(at, who, [right.user for right in user.may_submit_as], "users")
        for n, right in enumerate(user.may_submit_as):
            yield from _unknown((*at, n, "user"), who, [right.user], "users", known)
            yield from _named_twice((*at, n, "queues"), who, right.queues or (), "queues")
            yield from _unknown((*at, n, "queues"), who, right.queues or (), "queues", known)
            if right.user == user.name:
                yield (*at, n, "user"), f"{who} can always submit under their own name; remove this entry"


def _twice(what: str, named: Iterable[tuple[Location, str]]) -> Iterator[Error]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield place, f"{what} '{name}' is named twice"
        seen.add(name)


def _named_twice(place: Location, who: str, names: Iterable[str], kind: str) -> Iterator[Error]:
    for at, sentence in _twice(KINDS[kind].singular, (((*place, name), name) for name in names)):
        yield at, f"{who}: {sentence}"


def _unknown(
    place: Location, who: str, names: Iterable[str], kind: str, known: Mapping[str, Names]
) -> Iterator[Error]:
    exist = known[kind]
    for name in names:
        if name not in exist:
            few = ", ".join(islice(exist, 5)) + (", ..." if len(exist) > 5 else "")
            hint = meant(name, exist) or f"the site has {few or 'none'}"
            what = KINDS[kind].singular
            yield (*place, name), f"{who} names the {what} '{name}', which does not exist; {hint}"
