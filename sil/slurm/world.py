"""A controller, made and started for what it is to manage."""

from __future__ import annotations

import os
import re
import select
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from scheduler import UserError
from scheduler.managers.queues import Admission
from scheduler.messages import counted
from scheduler.model import Job
from scheduler.node_request import Node
from scheduler.ports import NodeMonitor
from sil.settings.log_events import Events
from sil.slurm.accounting import Accounting
from sil.slurm.cluster import check_nodes, configuration_for
from sil.slurm.configuration import Configuration, configuration_of, read_configuration
from sil.slurm.controller import Controller
from sil.slurm.daemons import InvalidConfiguration
from sil.slurm.installation import calling_user
from sil.slurm.layout import Layout, Parts, Processors
from sil.slurm.manager import SETTLES_FOR_S, SlurmManager
from sil.slurm.naming import SlurmController
from sil.slurm.queries import FIRST_S, Statements
from sil.slurm.running import EPOCH_S, How, running
from sil.slurm.runs import controller_limits
from sil.slurm.submissions import Components, Group, Submissions
from sil.world.guard.decision_time import Measured
from sil.world.guard.faults import PROCESS_SURVIVES, SchedulerFault
from sil.world.guard.scheduler import Guard
from sil.world.machines.execution import SimDispatcher
from sil.world.monitors import NodeChanges
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster

COMMANDS = "squeue, sinfo, sdiag, sprio, scontrol show job"


def wait_for_enter(controller: Controller) -> None:
    """Say how to reach the controller, and wait for a line of standard input. No time passes; what the
    controller asks of its nodes meanwhile is answered."""
    print(
        f"\nSlurm's controller is paused. In another terminal:\n\n  {_entrance(controller)}\n\n"
        f"Then its commands see it as it is now ({COMMANDS}). Press Enter to go on.",
        file=sys.stderr,
        flush=True,
    )
    while sys.stdin not in (ready := select.select([sys.stdin, controller.nodes], [], [])[0]):
        if controller.nodes in ready:
            controller.serve()
    sys.stdin.readline()


def _entrance(controller: Controller) -> str:
    """What to type for the commands of its installation, with its time."""
    installation, variables = controller.installation, dict(controller.environment())
    if installation.place.root is not None:
        return shlex.join(installation.invoked(["/bin/sh"], variables)[0])
    if installation.place.prefix is not None:
        variables["PATH"] = f"{installation.program('squeue').parent}:{os.environ.get('PATH', '')}"
    return "export " + " ".join(f"{key}={shlex.quote(value)}" for key, value in variables.items())


STARTS_WITHIN_S = 60.0
"""The time in which the daemons start, in seconds of the controller's time. How long that takes varies, and
second 0 is the same for all. The controller's cycles begin with the start, and are parts of minutes."""
PHASE_S = 7.3
"""How many seconds earlier each further controller with the same name starts."""
FIRST_USER_ID = 100_000
_PLAIN = re.compile(r"\w[\w.@+-]*")
"""Matches names that users of a computer may have."""
ACCOUNT = "all"
"""The account of users whose account is unknown."""


@dataclass(frozen=True)
class SlurmWorld:
    """Nodes, or the number of identical processors; the users who submit jobs, and their estimates.

    `priorities` are those of partitions in a configuration that is made; `admission` are rules of the site
    for who may submit what, beside the controller's own.
    """

    machine: SiteNodes | int
    users: Sequence[str]
    estimate_s: Callable[[Job], float]
    step_s: float = 1.0
    """While jobs only wait, the controller looks around this often; a greater step is faster, and later."""
    pause_at_s: float = inf
    """When to wait for the user, who can look at the controller."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    admission: Admission | None = None
    monitor: NodeMonitor | None = None
    """Reports nodes that fail and are repaired; None: none does."""
    events: Events = field(default_factory=Events)
    charged: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """The account and QOS of jobs, by number; empty where unknown."""
    components: Sequence[Components] = ()
    """The components of heterogeneous jobs."""
    accounts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The accounts of users, as far as they are known; the first is a user's default."""
    statements: Path | None = None
    """A file for what the controller says of itself (`sil.slurm.queries`)."""


@contextmanager
def managed_by(
    named: SlurmController, world: SlurmWorld, orders: SimDispatcher, guard: Guard
) -> Iterator[SlurmManager]:
    """A running controller as the world's resource manager. Raises UserError if it cannot run here, and
    SchedulerFault if it does not start with its configuration, dies or hangs."""
    cost = None if guard.charge is None else guard.charge.cost
    if cost is not None and not isinstance(cost, Measured):
        raise UserError(
            "scheduler 'slurm': the time that Slurm's controller takes can only be measured; use the "
            "decision cost measured, or measured(factor=10)"
        )
    configuration, layout = _configured(named, world)
    configuration = configuration.with_settings(named.settings, named.installation.release)
    user_ids = {name: FIRST_USER_ID + k for k, name in enumerate(world.users)}
    if calling_user() in user_ids:
        user_ids[calling_user()] = os.getuid()  # as which the daemons run
    names = {user: user if _PLAIN.fullmatch(user) else f"user-{uid}" for user, uid in user_ids.items()}
    ready_s = EPOCH_S - SETTLES_FOR_S
    starts_at_s = ready_s - STARTS_WITHIN_S - PHASE_S * (named.number - 1)
    accounts = {names[user]: world.accounts.get(user, (ACCOUNT,)) for user in world.users}
    qos = {charged["qos"] for charged in world.charged.values()} - {""}
    if named.qos is not None or named.associations is not None:
        qos = set()
    accounting = Accounting(named.associations, named.qos, accounts, qos)
    uids = {names[user]: uid for user, uid in user_ids.items()}
    how = How(guard.limit_s, by_munge=True, installation=named.installation)
    with ExitStack() as context:
        try:
            controller = context.enter_context(running(configuration, starts_at_s, uids, accounting, how))
        except InvalidConfiguration as error:
            raise SchedulerFault(PROCESS_SURVIVES, str(error), 0.0) from None
        controller.serve_until(ready_s)
        charged = world.charged if configuration.needs_accounting else {}
        groups: list[Group] = [*world.components, *world.events.arrays]
        jobs = Submissions(layout, user_ids, world.estimate_s, world.events, groups, charged, world.admission)
        changes, patience = NodeChanges(world.monitor), controller_limits(configuration.lines)
        manager = SlurmManager(controller, jobs, changes, patience, orders, guard)
        controller.clock.stretch_beats(world.step_s)
        controller.clock.charge_computing(0.0 if cost is None else cost.factor)
        if world.pause_at_s < inf:
            manager.appoint(world.pause_at_s, lambda: wait_for_enter(controller))
        if world.statements is not None:
            statements = Statements(controller, configuration.needs_accounting)
            manager.hear(statements, FIRST_S)
        yield manager
        if world.statements is not None:
            statements.write(world.statements)


def _configured(named: SlurmController, world: SlurmWorld) -> tuple[Configuration, Layout]:
    machine = world.machine
    if named.path is not None:
        configuration = read_configuration(named.path, named.installation.release)
        theirs = read_cluster(named.path).up
        if isinstance(machine, SiteNodes):
            check_nodes(named.path, theirs, machine)
            return configuration, Parts(replace(machine, has_memory=theirs.has_memory))
        processors = Processors(theirs.nodes, theirs.threads)
        if processors.n != machine:
            raise UserError(
                f"{named.path} has {theirs}, and the log {counted(machine, 'processor')}; expected as many "
                f"CPUs: change the nodes in a copy of that file, or read the log with the nodes of that file"
            )
        return configuration, processors
    if isinstance(machine, SiteNodes):
        return configuration_for(machine, world.priorities), Parts(machine)
    names = [f"n{k}" for k in range(1, machine + 1)]
    return configuration_of(machine), Processors(dict.fromkeys(names, Node(memory_mib=1000)))
