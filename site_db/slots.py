"""Slots: a machine runs as many sequential jobs at a time as it has slots.

Schedulers, resource managers and simulated machines see each slot as a machine of its own, named `n01/1`,
`n01/2` and so on; a machine with one slot keeps its name. History, estimates, states, outages and what-if
changes are those of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from site_db.files.plain_values import is_whole

SEPARATOR = "/"


def slot_names(machine: str, n_slots: int) -> tuple[str, ...]:
    """The names of a machine's slots; that of the machine if it has only one."""
    if n_slots == 1:
        return (machine,)
    return tuple(f"{machine}{SEPARATOR}{number}" for number in range(1, n_slots + 1))


def machine_of_slot(name: str, n_slots: Mapping[str, int]) -> str | None:
    """The machine with a slot of this name, by the number of slots of each machine; None if no machine has
    one. A machine with one slot is not a slot."""
    machine, _, number = name.rpartition(SEPARATOR)
    n = n_slots.get(machine, 1)
    # "n01/07" and the digits of other scripts are names of something else.
    is_number = is_whole(number) and str(int(number)) == number
    return machine if n > 1 and is_number and 1 <= int(number) <= n else None


@dataclass(frozen=True)
class Slots:
    """The slots of a site by index: those of the first machine, then those of the second, and so on.

    `of_machine` is the number of slots of each machine, `of_member` that of each member of each cluster. In
    the indices of schedulers, clusters come after all slots; in those of a site, after all machines.
    """

    of_machine: tuple[int, ...]
    of_member: tuple[int, ...] = ()

    @cached_property
    def machine_of(self) -> tuple[int, ...]:
        """The machine of each slot."""
        return tuple(j for j, n in enumerate(self.of_machine) for _ in range(n))

    @cached_property
    def by_machine(self) -> tuple[tuple[int, ...], ...]:
        """The slots of each machine."""
        slots: list[list[int]] = [[] for _ in self.of_machine]
        for slot, j in enumerate(self.machine_of):
            slots[j].append(slot)
        return tuple(map(tuple, slots))

    @property
    def first(self) -> tuple[int, ...]:
        """The first slot of each machine."""
        return tuple(slots[0] for slots in self.by_machine)

    def place(self, resource: int, n_slots: int) -> tuple[int, int]:
        """The place in the site of a run on `n_slots` slots of a scheduler's resource, and its number of
        machines."""
        c = resource - len(self.machine_of)
        if c < 0:
            return self.machine_of[resource], 1
        return len(self.of_machine) + c, _machines(n_slots, self.of_member[c])

    def machines_with(self, n_slots: Sequence[int]) -> list[int]:
        """The number of machines with so many slots in each cluster."""
        return [_machines(n, of_one) for n, of_one in zip(n_slots, self.of_member, strict=True)]


def _machines(n_slots: int, of_one: int) -> int:
    """A machine of which only some slots are used counts."""
    return -(-n_slots // of_one)
