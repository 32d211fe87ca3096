"""The messages of the NAS Parallel Benchmarks, counted in their algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, log2, sqrt
from typing import NamedTuple


class Traffic(NamedTuple):
    """The messages that each task of a job sends."""

    messages: int
    megabytes: float


SIZES = {
    "IS": {"A": (2**23, 10), "B": (2**25, 10), "C": (2**27, 10)},
    "CG": {"A": (14_000, 15), "B": (75_000, 75), "C": (150_000, 75)},
    "MG": {"A": (256, 4), "B": (256, 20), "C": (512, 20)},
    "FT": {"A": (2**23, 6), "B": (2**25, 20), "C": (2**27, 20)},
    "BT": {"A": (64, 200), "B": (102, 200), "C": (162, 200)},
    "SP": {"A": (64, 400), "B": (102, 400), "C": (162, 400)},
    "LU": {"A": (64, 250), "B": (102, 250), "C": (162, 250)},
}
"""Keys, rows, points or points along each axis, and iterations, by class: Bailey et al., "The NAS Parallel
Benchmarks", RNR-94-007 (class A, B); NPB 2.3 (class C)."""


def nas_traffic(job_class: str, n_tasks: int) -> Traffic | None:
    """The mean over the tasks of "MG.A", for example; None for another job, or without 2, 4, 8, ... tasks.

    Source: the algorithms of NPB 2 (Bailey et al., "The NAS Parallel Benchmarks 2.0", NAS-95-020), as in the
    MPI programs of NPB 2.3 and 3.3, with the warm-up but without preparation and verification. BT and SP need
    a square number of tasks; between squares, the formulas are the same with its root.
    """
    name, _, problem_class = job_class.partition(".")
    size = SIZES.get(name, {}).get(problem_class)
    if size is None or n_tasks < 2 or n_tasks & (n_tasks - 1):
        return None
    sent = list(_messages(name, *size, n_tasks))
    return Traffic(round(sum(n for n, _ in sent)), sum(n * n_bytes for n, n_bytes in sent) / 1e6)


def _messages(name: str, size: int, iterations: int, p: int) -> Iterator[tuple[float, float]]:
    """Numbers of messages, and bytes of each; a number has 8 bytes, in IS 4 and in FT 16."""
    halvings, across, along = int(log2(p)), 2 ** ceil(log2(p) / 2), 2 ** floor(log2(p) / 2)
    if name == "IS":  # sums of 1,024 buckets and 5 tests, numbers of keys, and keys for each other task
        yield (iterations + 1) * halvings, 4 * 1029
        yield (iterations + 1) * (p - 1), 4
        yield (iterations + 1) * (p - 1), 4 * size / p**2
    elif name == "CG":  # 26 products of matrix and vector: partial sums in a row, transposition, two dots
        stages, products = int(log2(across)), 26 * (iterations + 1)
        yield products * (stages + 1), 8 * size / across
        yield products * 2 * stages, 8
    elif name == "MG":  # both faces of each axis that is divided, three times a level; twice on the lowest
        axes = [2 ** ((halvings + k) // 3) for k in range(3)]
        for level in range(int(log2(size))):
            for parts in axes:
                face = (size / 2**level) ** 2 * parts / p
                yield 2 * (parts > 1) * iterations * (3 if size >> level > 2 else 2), 8 * face
    elif name == "FT":  # a transposition among all tasks
        yield (iterations + 1) * (p - 1), 16 * size / p**2
    elif name == "LU":  # two sweeps over planes, and the two outermost layers of each block
        for parts, others in ((across, along), (along, across)):
            edges = (parts - 1) * others / p
            yield 2 * edges * iterations * (size - 2), 8 * 5 * size / others
            yield 2 * edges * (iterations + 1), 8 * 10 * size**2 / others
    else:  # BT and SP: two layers of the faces of all cells; three sweeps over the cells, there and back
        cells, (there, back) = sqrt(p), (30, 5) if name == "BT" else (22, 10)
        yield 6 * (iterations + 1), 8 * 10 * (cells - 1) * size**2 / p
        yield 3 * (cells - 1) * (iterations + 1), 8 * there * size**2 / p
        yield 3 * (cells - 1) * (iterations + 1), 8 * back * size**2 / p
