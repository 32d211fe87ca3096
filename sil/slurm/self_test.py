"""Whether a release that was not tested can be driven: a job on a node, in three simulated minutes."""

from __future__ import annotations

import os
from collections.abc import Iterator

from scheduler.node_request import Node
from sil.slurm.configuration import configuration_of
from sil.slurm.installation import Installation
from sil.slurm.protocol.fields import ProtocolError
from sil.slurm.protocol.from_nodes import Submitted, script_completed
from sil.slurm.protocol.submission import Submission
from sil.slurm.protocol.to_nodes import BatchJobLaunch
from sil.slurm.running import How, running
from sil.world.guard.faults import SchedulerFault, one_line

BEGINS_S = 1_577_836_800.0
PART_S = 60.0
"""Simulated time for nodes to register, for the job to start, and for what follows its end."""
LIMIT_S = 30.0
"""Real time to come to rest after each event."""


def faults(installation: Installation) -> Iterator[str]:
    """Sentences; none if all goes as in the releases that were tested."""
    slurm = f"Slurm {installation.release.name}"
    try:
        yield from (f"{slurm} {fault}" for fault in _of_a_job(installation))
    except (SchedulerFault, ProtocolError, OSError) as error:
        yield f"{slurm} cannot be driven as far as a first job: {one_line(str(error))}"


def _of_a_job(installation: Installation) -> Iterator[str]:
    how = How(LIMIT_S, installation=installation)
    with running(configuration_of(1), BEGINS_S, how=how) as controller:
        controller.begin({"n1": Node(memory_mib=1000)}, BEGINS_S + PART_S)
        user, group = os.getuid(), os.getgid()
        answer = controller.submit([Submission(user=user, group=group, min_nodes=1, time_limit_min=10)])
        controller.serve_until(BEGINS_S + 2 * PART_S)
        launched = [order for order in controller.orders if isinstance(order, BatchJobLaunch)]
        for launch in launched:
            controller.ask(script_completed(launch.job, user))
        controller.serve_until(BEGINS_S + 3 * PART_S)
        unknown = controller.clock.unknown_waits
    if not isinstance(answer, Submitted) or [launch.job for launch in launched] != [answer.job]:
        yield f"does not start a first job: it answers {answer}"
    if unknown:
        waits = ", ".join(map(str, unknown))
        yield f"waits in ways that are not known, so that a run may take much longer: {waits}"
