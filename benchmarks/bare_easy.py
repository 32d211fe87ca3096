"""The baseline of bench_replay: a bare textbook EASY.

Arrays in, start times out: no manager, no ports, no events of other kinds, no nodes with names, no trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush


def easy_starts(
    submit_s: Sequence[float],
    run_s: Sequence[float],
    size: Sequence[int],
    estimate_s: Sequence[float],
    processors: int,
) -> list[float]:
    """When each job starts. At the same time, completions come first, then arrivals, then one pass."""
    n, next_job, free = len(submit_s), 0, processors
    start_s = [0.0] * n
    queue: list[int] = []
    running: list[int] = []
    ends: list[tuple[float, int]] = []
    while next_job < n or ends:
        arrives_s = submit_s[next_job] if next_job < n else float("inf")
        now_s = min(arrives_s, ends[0][0]) if ends else arrives_s
        while ends and ends[0][0] == now_s:
            job = heappop(ends)[1]
            running.remove(job)
            free += size[job]
        while next_job < n and submit_s[next_job] == now_s:
            queue.append(next_job)
            next_job += 1
        starting = []
        while queue and size[queue[0]] <= free:
            job = queue.pop(0)
            free -= size[job]
            start_s[job] = now_s
            running.append(job)
            heappush(ends, (now_s + run_s[job], job))
        if queue and free:
            shadow_s, then_free = now_s, free
            for end_s, job in sorted((start_s[job] + estimate_s[job], job) for job in running):
                if then_free >= size[queue[0]] and end_s > shadow_s:
                    break
                shadow_s, then_free = end_s, then_free + size[job]
            spare = then_free - size[queue[0]]
            for job in queue[1:]:
                in_time = now_s + estimate_s[job] <= shadow_s
                if size[job] <= free and (in_time or size[job] <= spare):
                    free -= size[job]
                    spare -= 0 if in_time else size[job]
                    starting.append(job)
        for job in starting:
            queue.remove(job)
            start_s[job] = now_s
            running.append(job)
            heappush(ends, (now_s + run_s[job], job))
    return start_s
