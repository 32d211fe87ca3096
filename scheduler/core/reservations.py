"""The reservations of the jobs that wait for identical nodes."""

from __future__ import annotations

from math import inf, nextafter

from scheduler.core.arrays import Floats, Ints, floats, integers
from scheduler.core.profile import Profile
from scheduler.core.releases import Releases
from scheduler.core.starting import Starting
from scheduler.core.waiting_tree import WaitingTree


def sort_stable(keys: Floats, order: Ints, scratch: Ints, n: int) -> None:
    """Write the positions of n keys in ascending order to `order`; ties keep their order. Merge sort of
    blocks that are sorted by insertion, since keys are nearly in order."""
    width = 16
    for x in range(n):
        y = x
        while y % width != 0 and keys[order[y - 1]] > keys[x]:
            order[y] = order[y - 1]
            y -= 1
        order[y] = x
    while width < n:
        low = 0
        while low < n:
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for x in range(low, high):
                if right >= high or (left < middle and keys[order[left]] <= keys[order[right]]):
                    scratch[x] = order[left]
                    left += 1
                else:
                    scratch[x] = order[right]
                    right += 1
            low += 2 * width
        for x in range(n):
            order[x] = scratch[x]
        width *= 2
    return


class Reservations:
    """The reservations that one pass hands on to the next, and its work space.

    There are `n`: of `jobs`, in queue order, from `start_s` on. `is_settled`: whether each was the earliest
    possible one, given the others."""

    def __init__(self) -> None:
        self.n, self.n_waiting, self.is_settled = 0, 0, False
        self.last_profile, self.last_runs = Profile(), Profile()
        self.profile, self.peaks, self.runs = Profile(), Profile(), Profile()
        self.jobs, self.start_s = integers(0), floats(0)
        self.make_room(0)

    def make_room(self, n: int) -> None:
        """Make room for n waiting jobs; the reservations stay in their arrays."""
        room = 2 * n + 256
        jobs, start_s = integers(room), floats(room)
        for x in range(self.n):
            jobs[x], start_s[x] = self.jobs[x], self.start_s[x]
        self.jobs, self.start_s, self.new_start_s = jobs, start_s, floats(room)
        self.place, self.size, self.job = integers(room), integers(room), integers(room)
        self.by_start, self.by_end, self.scratch = integers(room), integers(room), integers(room)
        self.takes_s, self.end_s = floats(room), floats(room)

    def first_reserved_s(self) -> float:
        """The start of the first reservation; infinite if there is none."""
        first_s = inf
        for x in range(self.n):
            first_s = min(first_s, self.start_s[x])
        return first_s

    @property
    def of_waiting_s(self) -> list[float]:
        """The start of each job that waited in the last pass, in order; infinite if it never fits."""
        return [self.new_start_s[k] for k in range(self.n_waiting)]

    @property
    def by_job(self) -> dict[int, float]:
        """The start of each job that still waits after the last pass."""
        return {self.jobs[x]: self.start_s[x] for x in range(self.n)}

    def read_waiting(self, tree: WaitingTree) -> int:
        """Write place, size, estimate and number of each waiting job. Returns how many there are."""
        if tree.n_jobs[1] > self.jobs.shape[0]:
            self.make_room(tree.n_jobs[1])
        n = 0
        for place in range(tree.place_of(0), tree.n_places):
            k = tree.capacity + place
            if tree.n_jobs[k] > 0:
                self.place[n], self.size[n] = place, int(tree.size[k])
                self.takes_s[n], self.job[n] = tree.estimate_s[k], tree.job[place]
                n += 1
        return n

    def carry_over(self, n: int) -> int:
        """Set `new_start_s` of n waiting jobs to the earlier reservations; infinite for jobs without one.
        Both tables are in queue order. Returns how many are found."""
        y, n_found = 0, 0
        for x in range(n):
            self.new_start_s[x] = inf
            for z in range(y, self.n):
                if self.jobs[z] == self.job[x]:
                    self.new_start_s[x] = self.start_s[z]
                    y = z + 1
                    n_found += 1
                    break
        return n_found

    def keep_all(self, n: int, releases: Releases, n_free: int, now_s: float, soon_s: float) -> bool:
        """Write the profile if all reservations are kept, and overdue ones begin now. Returns whether enough
        nodes are free for this."""
        start_s, by_start, by_end, profile = self.new_start_s, self.by_start, self.by_end, self.profile
        n_kept = 0
        while n_kept < n and start_s[by_start[n_kept]] < inf:
            k = by_start[n_kept]
            self.end_s[n_kept] = max(start_s[k], now_s) + self.takes_s[k]
            n_kept += 1
        sort_stable(self.end_s, by_end, self.scratch, n_kept)
        profile.begin(now_s, n_free)
        n_running, x, y, z = releases.n, 0, 0, 0
        while x < n_running or z < n_kept:  # each reservation begins before it ends
            released_s = max(releases.end_s[x], soon_s) if x < n_running else inf
            begins_s = max(start_s[by_start[y]], now_s) if y < n_kept else inf
            ends_s = self.end_s[by_end[z]] if z < n_kept else inf
            time_s = min(released_s, begins_s, ends_s)
            if time_s == inf:
                break  # the others never end
            last = profile.n - 1
            if time_s > profile.time_s[last] and profile.free[last] < 0:
                return False
            last = profile.row_from(time_s)
            if begins_s == time_s:
                profile.free[last] -= self.size[by_start[y]]
                y += 1
            elif ends_s == time_s:
                profile.free[last] += self.size[by_start[by_end[z]]]
                z += 1
            else:
                profile.free[last] += releases.released[x]
                x += 1
        if profile.free[profile.n - 1] < 0:
            return False
        for y in range(n_kept):
            start_s[by_start[y]] = max(start_s[by_start[y]], now_s)
        return True

    def keep_or_move(self, n: int, releases: Releases, n_free: int, now_s: float, soon_s: float) -> None:
        """Write the profile if reservations that cannot be kept move to the earliest later time."""
        profile = self.profile
        profile.beside_runs(releases, n_free, now_s, soon_s)
        for x in range(n):
            k = self.by_start[x]
            if self.new_start_s[k] < inf:
                size, takes_s = self.size[k], self.takes_s[k]
                start_s = profile.earliest_s(max(self.new_start_s[k], now_s), size, takes_s, inf)
                profile.add(start_s, start_s + takes_s, -size)
                self.new_start_s[k] = start_s

    def write_profile(
        self, n: int, n_found: int, releases: Releases, n_free: int, now_s: float, soon_s: float
    ) -> None:
        """Write the profile with the reservations of the last pass, of which `n_found` are of the n jobs.
        `is_settled` is then whether each is still the earliest possible one."""
        is_kept = n_found == self.n and self.first_reserved_s() >= now_s
        if is_kept and self.runs.goes_on_as(self.last_runs):
            self.profile.copy_from(self.last_profile, now_s)
            return
        sort_stable(self.new_start_s, self.by_start, self.scratch, n)
        if not self.keep_all(n, releases, n_free, now_s, soon_s):
            self.is_settled = False
            self.keep_or_move(n, releases, n_free, now_s, soon_s)
        elif self.is_settled:
            self.is_settled = self.profile.is_nowhere_freer(self.last_profile)

    def reserve(
        self, tree: WaitingTree, releases: Releases, n_free: int, now_s: float, starting: Starting
    ) -> None:
        """One pass over a queue, in which new reservations replace the last ones. Writes the jobs that start
        to `starting`, in order. Numbers must be different for all jobs that wait; size and estimate of each
        must stay the same."""
        n = self.read_waiting(tree)
        soon_s: float = nextafter(now_s, inf)
        profile, start_s, n_found = self.profile, self.new_start_s, self.carry_over(n)
        # A job has rows where its reservation begins and ends, before a pass and thereafter.
        room = releases.n + 4 * n + 3
        profile.make_room(room)
        self.runs.beside_runs(releases, n_free, now_s, soon_s)
        self.runs.make_room(self.runs.n + 2 * n + 2)
        self.write_profile(n, n_found, releases, n_free, now_s, soon_s)
        all_stay, is_settled, has_peaks, n_left = self.is_settled, True, False, 0
        starting.n = 0
        for k in range(n):
            size, takes_s, before_s = self.size[k], self.takes_s[k], start_s[k]
            from_s = inf
            if before_s == inf or not all_stay:
                if not has_peaks:
                    profile.find_peaks(self.peaks)
                    has_peaks = True
                x = 0
                while x < self.peaks.n and self.peaks.free[x] < size:
                    x += 1
                if x < self.peaks.n:
                    from_s = self.peaks.time_s[x]
            if from_s < before_s:
                start_s[k] = profile.earliest_s(from_s, size, takes_s, before_s)
            if start_s[k] < before_s:
                if before_s < inf:
                    is_settled = False
                    profile.add(before_s, before_s + takes_s, size)
                    profile.find_peaks(self.peaks)
                profile.add(start_s[k], start_s[k] + takes_s, -size)
            if start_s[k] == now_s:
                self.runs.add(now_s, now_s + takes_s, -size)
                starting.add(self.place[k], size, takes_s, k)
            else:
                self.jobs[n_left], self.start_s[n_left] = self.job[k], start_s[k]
                n_left += 1
        self.n, self.n_waiting, self.is_settled = n_left, n, is_settled
        self.last_profile.copy_from(profile, now_s)
        self.last_runs.copy_from(self.runs, now_s)
