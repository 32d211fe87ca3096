"""Codes of node selections and names of columns, for compiled code and its callers."""

from __future__ import annotations

FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, GPU_PACKING, GPU_CLUSTERING, CONSECUTIVE, IN_PYTHON = range(8)
"""Codes of node selections."""

NONE = -1
WHOLE = 1000
"""A core or a GPU, in thousandths."""

CORES, MEMORY = 0, 1
"""Columns of `NodeTable.capacity` and `free`; further columns are resources that the site names."""

HAS, FREE = 0, 1
"""Rows of `NodeTable.site`."""

ONE = 1
"""One as a 64-bit integer, to be shifted: a literal of C has 32 bits."""

MAX_RESERVATIONS = 62
"""The most reservations that are known at a time: each is a bit of an integer."""

NODE, CHUNKS, GPUS = range(3)
"""Columns of a table of what a job uses: a node, the number of chunks there, and the GPUs as bits."""
