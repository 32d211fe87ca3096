"""The cells of Table 1 of Hanzich et al. 2006, and what the paper has in them."""

from __future__ import annotations

from itertools import product

from sil.studies.cisne.experiments import LOADS, POLICIES

MPL, CPU = ("mpl", "mpl"), ("cpu", "cpu")
PAIRS = {"MPL": MPL, "CPU": CPU}
PAPER = {
    "Norm+BF": ((144.33, 99.67), (58.67, 59.67), (46.33, 45.00)),
    "Unif+BF": ((69.67, 63.33), (55.00, 31.33), (54.00, 46.67)),
    "Basic": ((6.33, 23.00), (14.00, 18.67), (34.33, 8.67)),
    "Normal": ((23.00, 15.33), (20.50, 21.33), (16.67, 28.33)),
    "Uniform": ((12.67, 8.67), (22.00, 21.67), (25.33, 18.33)),
}
"""Percent, (MPL-MPL, CPU-CPU) for each load."""
BACKFILLING = ("Norm+BF", "Unif+BF")
CELLS = tuple(product(POLICIES, LOADS))
