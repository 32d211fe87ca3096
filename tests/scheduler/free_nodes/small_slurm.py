"""Slurm's main and backfill schedulers in plain Python, as a reference: nodes with whole cores, times in
whole seconds, runs that end by their limits. Everything is looked for anew, among all times and nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class SlurmJob(NamedTuple):
    """`nodes` nodes with `cores` cores each, or whole ones, of a partition or one of `others`, for `limit_s`
    at most."""

    number: int
    submit_s: int
    run_s: int
    limit_s: int
    nodes: int
    cores: int
    whole: bool
    partition: str
    user: int
    priority: int
    others: frozenset[str] = frozenset()


class Use(NamedTuple):
    """Cores of a node, all of it if `alone`, from a time until another."""

    node: int
    cores: int
    alone: bool
    begin_s: int
    end_s: int


def consecutive(free: dict[int, int], n: int) -> list[int]:
    """So many of the nodes with these free cores: of the sequence with fewest cores that suffices, else all
    of the one with most, and more. A single node is the one with fewest cores of its sequence."""
    sequences: list[list[int]] = []
    for node in free:
        if not sequences or sequences[-1][-1] != node - 1:
            sequences.append([])
        sequences[-1].append(node)

    def cores(sequence: list[int]) -> int:
        return sum(free[node] for node in sequence)

    enough = [sequence for sequence in sequences if len(sequence) >= n]
    best = min(enough, key=cores) if enough else max(sequences, key=cores, default=[])
    if n == 1 and best:
        return [min(best, key=lambda node: free[node])]
    rest = {node: cores for node, cores in free.items() if node not in best}
    return best[:n] + (consecutive(rest, n - len(best)) if best and n > len(best) else [])


@dataclass
class SmallSlurm:
    """`nodes` have cores, and partitions by name, some with a tier. A user runs `most_running` jobs."""

    nodes: Sequence[tuple[int, frozenset[str]]]
    how: dict[str, Any]
    most_running: int | None = None
    tiers: dict[str, int] = field(default_factory=dict)
    waiting: list[SlurmJob] = field(default_factory=list)
    running: dict[SlurmJob, tuple[int, list[Use]]] = field(default_factory=dict)
    next_full_s: int = -1
    next_cycle_s: int = -1
    starts: dict[int, tuple[int, list[int]]] = field(default_factory=dict)

    def get(self, name: str) -> int:
        return int(self.how[name])

    def share_nodes(self, a: str, b: str) -> bool:
        return any(a in of and b in of for _, of in self.nodes)

    def offers(self, job: SlurmJob, uses: list[Use], begin_s: int, end_s: int) -> list[int]:
        """The nodes of a job that have room for it from a time until before another, or fewer."""
        found = {}
        for n, (cores, partitions) in enumerate(self.nodes):
            there = [use for use in uses if use.node == n and use.begin_s < end_s and use.end_s > begin_s]
            times = {begin_s, *(max(use.begin_s, begin_s) for use in there)}
            used = [[use for use in there if use.begin_s <= time_s < use.end_s] for time_s in times]
            most = max(sum(use.cores for use in each) for each in used)
            is_free = not there if job.whole else not any(use.alone for use in there)
            if job.partition in partitions and is_free and most + job.cores <= cores:
                found[n] = cores - most
        return consecutive(found, job.nodes)

    def uses_of(self, job: SlurmJob, nodes: list[int], begin_s: int, end_s: int) -> list[Use]:
        return [Use(n, job.cores, job.whole, begin_s, end_s) for n in nodes]

    def of_runs(self, now_s: int) -> list[Use]:
        """What runs use from now on; one that is about to end, for a moment."""
        return [use for _, uses in self.running.values() for use in uses if use.end_s > now_s]

    def is_at_limit(self, job: SlurmJob) -> bool:
        n = sum(other.user == job.user for other in self.running)
        return self.most_running is not None and n >= self.most_running

    def start(self, job: SlurmJob, nodes: list[int], now_s: int) -> None:
        self.waiting = [other for other in self.waiting if other.number != job.number]
        self.running[job] = now_s, self.uses_of(job, nodes, now_s, now_s + job.limit_s)
        self.starts[job.number] = now_s, nodes

    def main_pass(self, depth: int, now_s: int) -> None:
        stopped: set[str] = set()
        for job in self.ordered():
            if job.number in self.starts or not depth:
                continue
            depth -= 1
            if any(self.share_nodes(job.partition, other) for other in stopped) or self.is_at_limit(job):
                continue
            nodes = self.offers(job, self.of_runs(now_s), now_s, now_s + 1)
            if len(nodes) == job.nodes:
                self.start(job, nodes, now_s)
            elif now_s - job.submit_s >= self.get("bf_min_age_reserve"):
                stopped.add(job.partition)

    def cycle(self, now_s: int) -> bool:
        """Returns whether a job has started."""
        tested, started, plan = 0, 0, list[Use]()
        counts, reserved = Counter[tuple[str, Any]](), Counter[str]()
        for job in self.ordered():
            if tested >= self.get("bf_max_job_test"):
                break
            if self.is_at_limit(job) or job.number in self.starts:
                continue
            of = "bf_max_job_assoc" if self.get("bf_max_job_assoc") else "bf_max_job_user"
            keys = [(of, job.user), ("bf_max_job_part", job.partition)]
            if any(0 < self.get(key[0]) <= counts[key] for key in keys):
                continue
            counts.update(keys)
            tested += 1
            k = self.get("bf_job_part_count_reserve")
            now_only = (
                now_s - job.submit_s < self.get("bf_min_age_reserve") or 0 < k <= reserved[job.partition]
            )
            last_s = now_s if now_only else now_s + 60 * self.get("bf_window")
            found = next(self.possible(job, plan, now_s, last_s), None)
            if found is None:
                continue
            start_s, nodes = found
            if start_s == now_s:
                self.start(job, nodes, now_s)
                started += 1
                if started == self.get("bf_max_job_start"):
                    break
            else:
                reserved[job.partition] += 1
                plan += self.reservation(job, nodes, start_s)
        return started > 0

    def possible(
        self, job: SlurmJob, plan: list[Use], now_s: int, last_s: int
    ) -> Iterator[tuple[int, list[int]]]:
        uses = [*self.of_runs(now_s), *plan]
        margin_s = 1 if self.get("bf_resolution") else 0
        for start_s in sorted({now_s, *(use.end_s for use in uses if now_s < use.end_s)}):
            nodes = self.offers(job, uses, start_s, start_s + job.limit_s + margin_s)
            if start_s <= last_s and len(nodes) == job.nodes:
                yield start_s, nodes

    def reservation(self, job: SlurmJob, nodes: list[int], start_s: int) -> list[Use]:
        begin_s, end_s, slot_s = start_s, start_s + job.limit_s, self.get("bf_resolution")
        if slot_s:
            begin_s = begin_s // slot_s * slot_s
            end_s = max(end_s // slot_s * slot_s, begin_s + slot_s)
        if self.how["reserve"] == "nodes":
            return [Use(n, self.nodes[n][0], True, begin_s, end_s) for n in nodes]
        return self.uses_of(job, nodes, begin_s, end_s)

    def ordered(self) -> list[SlurmJob]:
        """Each job in each of its partitions."""
        tries = [
            job._replace(partition=name) for job in self.waiting for name in {job.partition, *job.others}
        ]

        def key(job: SlurmJob) -> tuple[Any, ...]:
            return -self.tiers.get(job.partition, 1), -job.priority, job.submit_s, job.number, job.partition

        return sorted(tries, key=key)

    def decide(self, now_s: int) -> list[int]:
        """Returns the times at which to decide again."""
        depth, again = self.get("default_queue_depth") + 1, []
        if now_s >= self.next_full_s:
            self.next_full_s, depth = now_s + self.get("sched_interval"), len(self.ordered())
        is_all = depth >= len(self.ordered())
        self.main_pass(depth, now_s)
        has_more, has_cycles = True, self.get("bf_max_job_test") > 0
        interval_s = self.get("bf_interval")
        if interval_s and self.next_cycle_s < now_s:
            self.next_cycle_s = now_s + -now_s % interval_s
        if has_cycles and now_s >= self.next_cycle_s:
            self.next_cycle_s = now_s + interval_s
            has_more = self.cycle(now_s)
        if self.waiting and has_cycles and has_more and self.next_cycle_s > now_s:
            again.append(self.next_cycle_s)
        if self.waiting and not is_all:
            again.append(self.next_full_s)
        return again

    def replay(self, jobs: Sequence[SlurmJob]) -> dict[int, tuple[int, list[int]]]:
        """When each job starts, and on which nodes."""
        left, again = sorted(jobs, key=lambda job: (job.submit_s, job.number)), list[int]()
        while left or self.waiting:
            ends = [begin_s + job.run_s for job, (begin_s, _) in self.running.items()]
            now_s = min([*ends, *(job.submit_s for job in left[:1]), *again])
            for job, (begin_s, _) in list(self.running.items()):
                if begin_s + job.run_s <= now_s:
                    del self.running[job]
            while left and left[0].submit_s == now_s:
                self.waiting.append(left.pop(0))
            if self.waiting:
                again = self.decide(now_s)
        return self.starts
