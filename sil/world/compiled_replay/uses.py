"""How facts state what jobs use of nodes with cores, memory and GPUs."""

from __future__ import annotations

from scheduler.compiled import Bytes, Flags, implements, part
from scheduler.free_nodes.kernels.on_nodes import N
from scheduler.node_resources.kernels.tables import CHUNKS, CORES, GPUS, NODE, WHOLE
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.facts import (
    AT_SIGN,
    COLON,
    COMMA,
    MOST_DIGITS,
    SPACE,
    TAB,
    Facts,
    write_byte,
    write_interval,
    write_number,
)

MOST_GPU_BYTES = 3
"""Two digits and a comma."""


@implements(loop.most_text)
def most_text(q: N) -> int:
    most_of_row = 3 * MOST_DIGITS + MOST_GPU_BYTES * q.on.nodes.gpu_free.shape[1]
    return int(most_of_row * q.on.rows_waiting[0] + MOST_DIGITS * q.ledger.n_waiting[0])


@implements(loop.write_use)
def write_use(q: N, x: int, f: Facts, fact: int, marks: Flags) -> None:
    """The nodes; a tab; what is used of each; a tab; the cores of whole nodes, if these were requested."""
    begin = q.on.decided.after[x - 1] if x > 0 else 0
    after, kind = q.on.decided.after[x], q.on.kind[q.on.decided.placed[x]]
    at = write_nodes(q, begin, after, f.text, f.text_end[fact], marks)
    at = write_byte(f.text, at, TAB)
    for row in range(begin, after):
        if row > begin:
            at = write_byte(f.text, at, SPACE)
        at = write_share(q, row, f.text, at)
    at = write_byte(f.text, at, TAB)
    if q.on.requests.exclusive[kind]:
        at = write_number(f.text, at, whole_cores(q, begin, after))
    f.text_end[fact + 1] = at


@part
def write_nodes(q: N, begin: int, after: int, text: Bytes, at: int, marks: Flags) -> int:
    """The nodes in some rows, in order. Returns the place after them."""
    rows = q.on.decided.rows
    lowest = highest = rows[begin, NODE]
    for row in range(begin, after):
        n = rows[row, NODE]
        marks[n] = True
        lowest, highest = min(lowest, n), max(highest, n)
    first = lowest
    for n in range(lowest, highest + 1):
        if marks[n] and (n == highest or not marks[n + 1]):
            at = write_interval(text, at, first == lowest, first, n)
        if not marks[n]:
            first = n + 1
    for row in range(begin, after):
        marks[rows[row, NODE]] = False
    return at


@part
def write_share(q: N, row: int, text: Bytes, at: int) -> int:
    """Node, chunks and GPUs, as in `7:2@0,1`. Returns the place after them."""
    rows = q.on.decided.rows
    at = write_number(text, at, rows[row, NODE])
    at = write_number(text, write_byte(text, at, COLON), rows[row, CHUNKS])
    separator = AT_SIGN
    for d in range(q.on.nodes.gpu_free.shape[1]):
        if rows[row, GPUS] & (1 << d):
            at = write_number(text, write_byte(text, at, separator), d)
            separator = COMMA
    return at


@part
def whole_cores(q: N, begin: int, after: int) -> int:
    """Of whole nodes, rounded half to even."""
    total = 0
    for row in range(begin, after):
        total += q.on.nodes.capacity[q.on.decided.rows[row, NODE], CORES]
    cores, rest = total // WHOLE, total % WHOLE
    return int(cores + (2 * rest > WHOLE or (2 * rest == WHOLE and cores % 2 == 1)))
