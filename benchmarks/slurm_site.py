"""A Slurm site with its accounting: nodes, jobs, and the schedule that a simple scheduler of its own made.

Independent of the testbed: nothing of it is imported here. The site has nodes of 64 cores, of which some have
4 GPUs, and three overlapping partitions. Jobs come in arrays, by day more than by night, so that the queue is
long at a moderate load.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CORES, CPU_MIB, GPU_MIB, GPUS = 64, 256_000, 512_000, 4
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
DAY_S = 86_400
LONGEST_S = 2 * DAY_S
HEADER = (
    "JobID|User|Account|Partition|QOS|JobName|Submit|Start|End|State|TimelimitRaw|ReqTRES|AllocTRES|NodeList"
)

Free = NDArray[np.int64]
"""(3, N): free cores, MiB and GPUs of each node."""


@dataclass(frozen=True, slots=True)
class SiteJob:
    """`nodes` times so many cores, MiB and GPUs; times are whole seconds."""

    submit_s: int
    run_s: int
    limit_s: int
    partition: str
    nodes: int
    each: tuple[int, int, int]
    user: str


@dataclass(frozen=True)
class SlurmSite:
    """340 nodes times `scale`."""

    scale: int = 1

    @property
    def n_cpu(self) -> int:
        return 300 * self.scale

    @property
    def n_gpu(self) -> int:
        return 40 * self.scale

    @property
    def names(self) -> list[str]:
        return [f"n{k:05d}" for k in range(1, self.n_cpu + 1)] + [
            f"g{k:05d}" for k in range(1, self.n_gpu + 1)
        ]

    @property
    def partitions(self) -> dict[str, slice]:
        """The nodes of each partition; the last overlaps the others."""
        n = self.n_cpu + self.n_gpu
        return {"cpu": slice(0, self.n_cpu), "gpu": slice(self.n_cpu, n), "all": slice(0, n)}

    @property
    def capacity(self) -> Free:
        rows = [(CORES, CPU_MIB, 0)] * self.n_cpu + [(CORES, GPU_MIB, GPUS)] * self.n_gpu
        return np.array(rows, dtype=np.int64).T.copy()

    @property
    def slurm_conf(self) -> str:
        return (
            "ClusterName=made\nSelectType=select/cons_tres\nSelectTypeParameters=CR_Core_Memory\n"
            f"NodeName=n[00001-{self.n_cpu:05d}] CPUs={CORES} RealMemory={CPU_MIB}\n"
            f"NodeName=g[00001-{self.n_gpu:05d}] CPUs={CORES} RealMemory={GPU_MIB} Gres=gpu:a100:{GPUS}\n"
            f"PartitionName=cpu Nodes=n[00001-{self.n_cpu:05d}] MaxTime=2-00:00:00\n"
            f"PartitionName=gpu Nodes=g[00001-{self.n_gpu:05d}] MaxTime=2-00:00:00\n"
            "PartitionName=all Nodes=ALL MaxTime=2-00:00:00\n"
        )

    def jobs(self, n_jobs: int, seed: int, load: float = 0.85) -> list[SiteJob]:
        """Jobs in order of submission. The scarcer of cores and GPUs has the load."""
        rng = np.random.default_rng(seed)
        shapes = list(self._arrays(n_jobs, rng))
        work = np.array([job.run_s * job.nodes * np.array(job.each) for job in shapes]).sum(axis=0)
        capacity = self.capacity.sum(axis=1)
        span_s = max(work[0] / capacity[0], work[2] / capacity[2]) / load
        # Each array arrives at one time, by day (8 to 18 o'clock) five times as often.
        starts = [k for k, job in enumerate(shapes) if k == 0 or job.submit_s != shapes[k - 1].submit_s]
        at_s = np.sort(self._by_day(len(starts), span_s, rng))
        found: list[SiteJob] = []
        for first, last, submit_s in zip(starts, [*starts[1:], n_jobs], at_s.tolist(), strict=True):
            found += [replace(job, submit_s=int(submit_s)) for job in shapes[first:last]]
        return found

    def _arrays(self, n_jobs: int, rng: np.random.Generator) -> Iterator[SiteJob]:
        """Jobs; those of an array are alike, and `submit_s` is its number."""
        made = array = 0
        while made < n_jobs:
            array += 1
            size = min(n_jobs - made, int(min(200, 1 + rng.pareto(0.9) * 2)))
            typical_s = np.exp(rng.normal(8.0, 1.3))
            factor = rng.choice([1.2, 1.5, 2.0, 4.0, 8.0])
            user = f"u{rng.integers(60):02d}"
            if rng.random() < 0.2:
                gpus = int(rng.choice([1, 1, 1, 2, 4]))
                nodes = int(rng.choice([1] * 9 + [2]))
                partition, each = "gpu", (8 * gpus, 48_000 * gpus, gpus)
            else:
                nodes = int(rng.choice([1] * 8 + [2, 4]))
                cores = CORES if nodes > 1 else int(rng.choice([1, 2, 4, 8, 16, 32, 64]))
                partition = "cpu" if rng.random() < 0.7 else "all"
                each = (cores, cores * int(rng.choice([1000, 2000, 3900])), 0)
            for _ in range(size):
                run_s = int(min(LONGEST_S - 60, max(30, typical_s * np.exp(rng.normal(0.0, 0.4)))))
                limit_s = int(min(LONGEST_S, max(run_s, typical_s * factor))) // 60 * 60 + 60
                yield SiteJob(array, run_s, min(limit_s, LONGEST_S), partition, nodes, each, user)
            made += size

    def _by_day(self, n: int, span_s: float, rng: np.random.Generator) -> NDArray[np.float64]:
        times_s = rng.uniform(0.0, span_s, 8 * n + 100)
        hour = times_s % DAY_S / 3600
        likely = np.where((hour >= 8) & (hour < 18), 1.0, 0.2)
        return times_s[rng.random(len(times_s)) < likely][:n]


def easy(site: SlurmSite, jobs: list[SiteJob]) -> tuple[list[int], list[list[int]], list[int]]:
    """The start and the nodes of each job, and the length of the queue after each pass.

    EASY backfilling with one queue: the first job that does not fit has a reservation at the earliest time at
    which it fits, if runs end at their limits; others start if they end by then or leave it room.
    """
    free, where = site.capacity, site.partitions
    starts = [-1] * len(jobs)
    places: list[list[int]] = [[] for _ in jobs]
    queue: list[int] = []
    running: list[tuple[int, int]] = []
    limits: dict[int, int] = {}
    lengths, arrived = [], 0

    def fitting(job: SiteJob, room: Free) -> NDArray[np.int64]:
        part = where[job.partition]
        enough = (room[:, part] >= np.array(job.each)[:, None]).all(axis=0)
        first: int = part.start
        return np.flatnonzero(enough)[: job.nodes] + first

    def start(k: int, nodes: NDArray[np.int64], now: int) -> None:
        job = jobs[k]
        free[:, nodes] -= np.array(job.each)[:, None]
        starts[k], places[k] = now, nodes.tolist()
        limits[k] = now + job.limit_s
        heappush(running, (now + job.run_s, k))

    while arrived < len(jobs) or running:
        next_end = running[0][0] if running else LONGEST_S * len(jobs)
        now = min(next_end, jobs[arrived].submit_s if arrived < len(jobs) else next_end)
        while running and running[0][0] == now:
            _, k = heappop(running)
            free[:, places[k]] += np.array(jobs[k].each)[:, None]
            del limits[k]
        while arrived < len(jobs) and jobs[arrived].submit_s == now:
            queue.append(arrived)
            arrived += 1
        while queue and len(nodes := fitting(jobs[queue[0]], free)) == jobs[queue[0]].nodes:
            start(queue.pop(0), nodes, now)
        if queue:
            head = jobs[queue[0]]
            room, shadow = free.copy(), now
            for end, k in sorted((max(end, now), k) for k, end in limits.items()):
                if end > shadow and len(fitting(head, room)) == head.nodes:
                    break
                room[:, places[k]] += np.array(jobs[k].each)[:, None]
                shadow = end
            hopeless, left = set(), [queue[0]]
            for k in queue[1:]:
                job = jobs[k]
                what = job.partition, job.nodes, job.each, now + job.limit_s <= shadow
                if what in hopeless:
                    left.append(k)
                    continue
                nodes = fitting(job, free)
                if len(nodes) == job.nodes and not what[-1]:
                    room[:, nodes] -= np.array(job.each)[:, None]
                    if len(fitting(head, room)) < head.nodes:
                        room[:, nodes] += np.array(job.each)[:, None]
                        nodes = nodes[:0]
                if len(nodes) == job.nodes:
                    start(k, nodes, now)
                else:
                    hopeless.add(what)
                    left.append(k)
            queue = left
        lengths.append(len(queue))
    return starts, places, lengths


def write_accounting(
    path: Path, site: SlurmSite, jobs: list[SiteJob], starts: list[int], places: list[list[int]]
) -> None:
    """The output of `sacct -P` with three steps for each job."""
    names = site.names
    with path.open("w") as file:
        file.write(HEADER + "\n")
        for k, (job, start_s, nodes) in enumerate(zip(jobs, starts, places, strict=True), start=1):
            cores, mib, gpus = (job.nodes * amount for amount in job.each)
            gres = f",gres/gpu={gpus}" if gpus else ""
            asked = f"billing={cores},cpu={cores}{gres},mem={mib}M,node={job.nodes}"
            given = asked.replace("gres/gpu=", "gres/gpu:a100=") + gres
            times = "|".join(_time(x) for x in (job.submit_s, start_s, start_s + job.run_s))
            listed = ",".join(names[n] for n in nodes)
            file.write(
                f"{k}|{job.user}|a{int(job.user[1:]) % 7}|{job.partition}|normal|work|{times}|COMPLETED|"
                f"{job.limit_s // 60}|{asked}|{given}|{listed}\n"
            )
            times = "|".join(_time(x) for x in (start_s, start_s, start_s + job.run_s))
            for step in ("batch", "extern", "0"):
                file.write(f"{k}.{step}||a0|||{step}|{times}|COMPLETED|||{asked}|{listed}\n")


def _time(second: int) -> str:
    return (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
