"""What a writer is to record: the batches of an experiment, the same ones whenever it is started again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from site_db.jobs.records import LIVE, JobRecord, JobState, PredictedTurnaround, Source, SourceKind

SITE = "small"
PLACES = {"f1": 1, "f2": 1, "s1": 1, "s2": 1, "odd": 1, "pair": 2, "mixed": 3}
"""The resources of the small site, with the greatest number of members of each."""


@dataclass(frozen=True)
class Work:
    """An experiment of so many batches of up to `most` jobs.

    As experiments do, it has a source for each batch, unless it is `live`: then all batches have the same
    one, which does not tell what is recorded already.
    """

    name: str
    batches: int
    most: int = 12
    live: bool = False

    @property
    def complete(self) -> Source:
        return Source(SourceKind.TESTBED, self.name, "campaign")

    def source(self, k: int) -> Source:
        if self.live:
            return LIVE
        return Source(SourceKind.TESTBED, f"{self.name}/0/{k}/mct", "campaign", "mct", 0, k)

    def jobs(self, k: int) -> list[JobRecord]:
        rng = Random(f"{self.name} {k}")
        return [self._job(f"{self.name}-{k}-{i}", rng) for i in range(rng.randint(1, self.most))]

    def all_jobs(self) -> Iterator[JobRecord]:
        for k in range(self.batches):
            yield from self.jobs(k)

    def _job(self, number: str, rng: Random) -> JobRecord:
        """Mostly done; on any place, with and without a size and predictions."""
        common = {
            "number": number,
            "job_class": rng.choice(("short", "long", "wide")),
            "user": f"{self.name}-{rng.randrange(3)}",
            "queue": rng.choice(("day", "night")),
            "submitted_s": float(rng.randrange(10_000)),
        }
        if rng.random() < 0.2:
            return JobRecord(**common, state=rng.choice((JobState.WAITING, JobState.REFUSED)))
        place, most = rng.choice(list(PLACES.items()))
        started_s, time_s = common["submitted_s"] + rng.randrange(100), rng.lognormvariate(4.0, 1.5)
        predicted = PredictedTurnaround("look-ahead", started_s, started_s + 50.0, None, None, True, 2)
        return JobRecord(
            **common,
            state=JobState.DONE,
            resource=place,
            members=rng.randint(1, most),
            started_s=started_s,
            run_time_s=time_s,
            size=rng.choice((None, float(rng.randint(1, 9)))),
            expected_s=rng.choice((None, 60.0)),
            predicted=(predicted,) * rng.randrange(2),
        )
