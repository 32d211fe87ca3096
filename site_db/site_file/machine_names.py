"""Names of many machines: host lists of Slurm, and the slots of machines.

A machine runs as many sequential jobs at a time as it has slots. Schedulers, resource managers and simulated
machines see each slot as a machine of its own, named `n01/1`, `n01/2` and so on; a machine with one slot
keeps its name. History, estimates, states, outages and what-if changes are those of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod

from site_db.files.formats import is_whole

MAX_IN_RANGE, MAX_IN_ALL = 100_000, 1_000_000
"""The most names in one range, and in a list; more are a typing error, which must not exhaust the memory."""


def expand(names: Iterable[str]) -> list[str]:
    """All names that the patterns `names` stand for, in order: with several brackets, the last numbers
    change first. Raises ValueError for a malformed bracket, and for more names than any site has."""
    found: list[str] = []
    for pattern in names:
        parts = _parts(pattern)
        _check_number(len(found) + prod(map(len, parts)), pattern)
        found += map("".join, product(*parts))
    return found


def _parts(pattern: str) -> list[list[str]]:
    """The text before the first bracket, the numbers in it, the text after it, and so on."""
    texts = re.split(r"\[([^\[\]]*)\]", pattern)
    if any("[" in text or "]" in text for text in texts[::2]):
        raise ValueError(f"'{pattern}' is neither a name nor a range like node[01-08,12]")
    parts = [[text] for text in texts]
    for at in range(1, len(parts), 2):
        parts[at] = []
        for ranges in texts[at].split(","):
            parts[at] += _numbers(ranges, pattern)
            _check_number(len(parts[at]), pattern)
    return parts


def _check_number(n: int, pattern: str) -> None:
    if n > MAX_IN_ALL:
        raise ValueError(f"a list that ends in '{pattern[:40]}' has more than {MAX_IN_ALL:,} names")


def _numbers(part: str, pattern: str) -> list[str]:
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", part.strip())
    if match is None or int(match[1]) > int(match[2] or match[1]):
        raise ValueError(f"'{pattern}' contains '{part}', which is not a range of numbers like 01-08")
    first, last = match[1], match[2] or match[1]
    if int(last) - int(first) >= MAX_IN_RANGE:
        raise ValueError(f"'{pattern}' stands for more than {MAX_IN_RANGE} names")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def fold(names: Iterable[str]) -> list[str]:
    """`names` in the bracket notation: consecutive numbers with the same prefix become a range."""
    ranges: list[tuple[str, int, str, str]] = []  # prefix, digits, first and last number
    for name in names:
        match = re.fullmatch(r"(.*?)([0-9]{1,18})", name, re.DOTALL)
        before, number = (match[1], match[2]) if match else (name, "")
        if ranges and number:
            last_before, width, first, last = ranges[-1]
            follows = last != "" and number == str(int(last) + 1).zfill(width)
            if last_before == before and follows and int(number) - int(first) < MAX_IN_RANGE:
                ranges[-1] = (before, width, first, number)
                continue
        ranges.append((before, len(number), number, number))
    return [before + (first if first == last else f"[{first}-{last}]") for before, _, first, last in ranges]


def patterns(text: str) -> list[str]:
    """The patterns of a list like n[01-03,07],x7: they end at the commas outside brackets."""
    found: list[str] = []
    parts: list[str] = []
    inside = False
    for part in text.split(","):
        parts.append(part)
        if "[" in part or "]" in part:
            inside = part.rfind("[") > part.rfind("]")
        if not inside:
            found.append(",".join(parts).strip())
            parts = []
    return [pattern for pattern in (*found, ",".join(parts)) if pattern]


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
        return len(self.of_machine) + c, ceil(n_slots / self.of_member[c])

    def machines_with(self, n_slots: Sequence[int]) -> list[int]:
        """The number of machines with this number of slots in each cluster, of which some are perhaps not
        used."""
        return [ceil(n / of_one) for n, of_one in zip(n_slots, self.of_member, strict=True)]
