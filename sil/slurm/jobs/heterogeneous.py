"""Heterogeneous jobs: the controller starts all components at one time, launches the first one only, and
takes its end for that of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sil.slurm.controller import Controller
from sil.slurm.jobs.submissions import Components, Group
from sil.slurm.protocol.job_credential import NodeShare, node_names

_SHARE = re.compile(r"^\s*Nodes=(\S+) CPU_IDs=([\d,-]+) Mem=\d+ GRES=(.*)$", re.MULTILINE)
_GPUS = re.compile(r"gpu[^,(]*\(IDX:([\d,-]+)\)")


class HeterogeneousJobs:
    """Those that are submitted, by Slurm's numbers, which are consecutive. `launch` starts a component with
    what it has of nodes, and returns whether it is known; `threads` are those of cores by node."""

    def __init__(
        self,
        controller: Controller,
        threads: Mapping[str, int],
        launch: Callable[[int, list[NodeShare]], bool],
    ) -> None:
        self._controller, self._threads, self._launch = controller, threads, launch
        self._others: dict[int, range] = {}
        """By the number of the first component."""
        self._first_of: dict[int, int] = {}
        self._running: dict[int, set[int]] = {}
        """By the number of the first component, that may be over."""

    def submitted(self, first: int, group: Group | None) -> None:
        if isinstance(group, Components):
            self._others[first] = range(first + 1, first + len(group.jobs))

    def launched(self, first: int, is_known: bool) -> None:
        """A job is launched; if it is the first component of one, the others begin. `is_known` is as `launch`
        returns it."""
        if first not in self._others:
            return
        running = {first} if is_known else set[int]()
        for number in self._others[first]:
            shown = self._controller.slurm("scontrol", "show", "job", "--details", str(number))
            if self._launch(number, [*self._shares(shown)]):
                running.add(number)
        self._running[first] = running
        self._first_of |= dict.fromkeys(running, first)

    def completed(self, number: int) -> int | None:
        """The job that is over with the run of this one; None as long as other components run."""
        first = self._first_of.pop(number, None)
        if first is None:
            return number
        self._running[first].discard(number)
        return None if self._running[first] else first

    def _shares(self, shown: str) -> Iterator[NodeShare]:
        """What a job has, of what `scontrol show job --details` prints of it."""
        for nodes, cpus, gres in _SHARE.findall(shown):
            places = _numbers(cpus)
            gpus = tuple(gpu for listed in _GPUS.findall(gres) for gpu in _numbers(listed))
            for node in node_names(nodes):
                threads = self._threads.get(node, 1)
                cores = tuple(dict.fromkeys(place // threads for place in places))
                yield NodeShare(node, len(places), cores, gpus, None, {})


def _numbers(listed: str) -> list[int]:
    """Of a list like 0-3,8."""
    return [int(number) for number in node_names(f"[{listed}]")]
