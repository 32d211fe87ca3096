"""A job of known length: it keeps a core busy until a given time of the computer's monotonic clock.

Run as a file, `python busy.py UNTIL_S`, so that it starts in a few milliseconds.
"""

import sys
import time


def compute(until_s: float) -> float:
    """Add up terms of a series in the meantime."""
    total, term = 0.0, 0
    while time.monotonic() < until_s:
        for _ in range(1_000):
            total += (-1.0) ** term / (2 * term + 1)
            term += 1
    return total


if __name__ == "__main__":
    compute(float(sys.argv[1]))
