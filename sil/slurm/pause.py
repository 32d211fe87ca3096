"""A paused controller: Slurm's commands work with it in another terminal, until Enter is pressed here."""

from __future__ import annotations

import os
import select
import shlex
import sys

from sil.slurm.controller import Controller

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
