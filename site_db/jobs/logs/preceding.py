"""Fields 17 and 18 of the Standard Workload Format: the job that has to end before another one may start, and
the seconds between. They are counted, not modelled."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

Named = Sequence[tuple[float, float, float]]
"""Jobs, the preceding jobs that they name, and their places in the log."""


def of_preceding(named: Named, first: Mapping[float, float], kept: Container[float] | None = None) -> str:
    """What jobs name, for the end of a sentence. `first` are the first places of the jobs that they name;
    `kept` are the jobs that are used, if that are not all."""
    there = [(preceding, place) for job, preceding, place in named if preceding != job and preceding in first]
    to_itself = sum(job == preceding for job, preceding, _ in named)
    kinds = {
        "itself": to_itself,
        "a job that is not in the log": len(named) - to_itself - len(there),
        "a job on a later line": sum(first[preceding] > place for preceding, place in there),
        "a job that is left out": sum(kept is not None and preceding not in kept for preceding, _ in there),
    }
    some = [f"{n:,} {'names' if n == 1 else 'name'} {what}" for what, n in kinds.items() if n]
    if len(named) > 1 and len({preceding for _, preceding, _ in named}) == 1:
        some.append(f"all name job {named[0][1]:.0f}, which is probably no dependency")
    of_these = f" (of these, {', '.join(some)})" if some else ""
    return (
        f"a preceding job in field 17, after whose end the job may start{of_these}; not modelled: jobs do "
        f"not wait for preceding jobs and think times (field 18)"
    )
