"""A process that records batches at the small site, for tests of several at once and of one that is killed.

Arguments: address, its name, number of batches, runs in a batch. It prints a line when it begins, waits for a
line on its standard input, and prints the number of each batch that is recorded.
"""

from __future__ import annotations

import sys

from site_db import store
from site_db.jobs.recorder import Recorder
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind

RESOURCES = ("f1", "f2", "s1", "s2", "odd", "pair")


def batch(name: str, k: int, n: int) -> list[JobRecord]:
    """Run times that tell one process and batch from another, so that a lost update would show."""
    seed = sum(map(ord, name))
    return [
        JobRecord(
            number=f"{name}-{k}-{i}",
            job_class="short",
            user=name,
            queue="day",
            state=JobState.DONE,
            submitted_s=0.0,
            resource=RESOURCES[(i + k) % len(RESOURCES)],
            members=2 if RESOURCES[(i + k) % len(RESOURCES)] == "pair" else 1,
            started_s=float(k),
            run_time_s=1.0 + (seed * 31 + k * 17 + i * 7) % 101 / 7,
        )
        for i in range(n)
    ]


def main() -> None:
    address = store.parse_address(sys.argv[1])
    name, batches, n = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    recorder = Recorder(store.open_database(address), "small", print)
    print("ready", flush=True)
    sys.stdin.readline()
    for k in range(batches):
        recorder.record(Source(SourceKind.TESTBED, f"{name}-{k}"), batch(name, k, n))
        print(k, flush=True)


if __name__ == "__main__":
    main()
