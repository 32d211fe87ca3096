"""How tasks share a node in the fluid model."""

from __future__ import annotations

from scheduler.core.arrays import Floats

TOLERANCE = 1e-13
MAX_ITERATIONS = 500


def solve(
    cpu: Floats, elsewhere: Floats, available: float, inflation: float, loss: float, found: Floats
) -> None:
    """O(k^2) in each of some tens of iterations, always from the same initial values."""
    k = cpu.shape[0]
    total = 0.0
    for i in range(k):
        found[i] = cpu[i]  # q, the share of its time in which a task has or waits for the CPU
        total += cpu[i]
    for _ in range(MAX_ITERATIONS):
        moved = 0.0
        for i in range(k):
            others = total - found[i]
            busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
            slower = max(elsewhere[i], busy + (1.0 - cpu[i]) * (1.0 + loss * others))
            q = 0.5 * (found[i] + busy / slower)
            moved = max(moved, abs(q - found[i]))
            total += q - found[i]
            found[i] = q
        if moved < TOLERANCE:
            break
    for i in range(k):
        others = total - found[i]
        busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
        found[i] = busy + (1.0 - cpu[i]) * (1.0 + loss * others)
