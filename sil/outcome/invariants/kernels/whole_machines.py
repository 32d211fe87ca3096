"""The check of facts where a machine holds one run at a time: machines are bits of words."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import FixedBytes, Ints, compiled, implements, inlined
from sil.outcome.invariants.kernels import clean_facts
from sil.outcome.invariants.kernels.clean_facts import S, interval_at


class WholeMachines(NamedTuple):
    """Words of 64 machines; what a run holds is the text of its machines."""

    held: Ints
    down: Ints


@inlined
def _bits(word: int, first: int, last: int) -> int:
    """Of 64 machines, those from `first` to `last`."""
    low = first - 64 * word if first > 64 * word else 0
    high = last - 64 * word if last < 64 * word + 63 else 63
    return (-1 << low) & ~(-2 << high)


@implements(clean_facts.take)
def take(s: WholeMachines, texts: FixedBytes, at: int, end: int, most: int, request: int) -> bool:
    if at >= end:
        return False
    while at < end:
        first, last, at = interval_at(texts, at, end, most)
        if first < 0:
            return False
        for word in range(first // 64, last // 64 + 1):
            bits = _bits(word, first, last)
            if (s.held[word] | s.down[word]) & bits:
                return False
            s.held[word] |= bits
    return True


@implements(clean_facts.give_back)
def give_back(s: WholeMachines, texts: FixedBytes, at: int, end: int, most: int, request: int) -> None:
    while at < end:
        first, last, at = interval_at(texts, at, end, most)
        for word in range(first // 64, last // 64 + 1):
            s.held[word] &= ~_bits(word, first, last)


@implements(clean_facts.set_down)
def set_down(s: WholeMachines, machine: int, is_down: bool) -> None:
    bit = 1 << (machine % 64)
    if is_down:
        s.down[machine // 64] |= bit
    else:
        s.down[machine // 64] &= ~bit


are_clean = compiled(clean_facts.are_clean, {S: WholeMachines})
