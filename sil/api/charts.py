"""Charts of replays, for notebooks and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler import UserError
from sil.api.logs import Moment, since_first_s
from sil.report.replay import Jobs
from sil.report.replay.by_size import (
    by_user,
    jobs_by_size_and_run_time,
    slowdown_by_size,
    slowdown_by_size_and_run_time,
    slowdown_by_user,
    waiting_by_week_and_size,
)
from sil.report.replay.measured import Replayed
from sil.report.replay.over_time import (
    gantt,
    queue_length,
    small_multiples,
    utilisation,
    waiting_distribution,
)
from sil.report.vega_lite import Figure, save, specification
from sil.trace.log_clock import LogClock

VEGA_LITE = "application/vnd.vegalite.v5+json"
"""The latest version that JupyterLab and VS Code know; these charts are the same in versions 5 and 6."""
SUFFIXES = (".png", ".svg", ".pdf", ".html")


class Chart:
    """A chart of Vega-Lite. Notebooks show it; `spec` is its specification, for other programs."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure

    @property
    def spec(self) -> dict[str, Any]:
        """The specification in Vega-Lite, with its data."""
        return specification(self._figure)

    def save(self, path: str | Path) -> None:
        """Write it as PNG, SVG, PDF or an interactive HTML page, by the suffix. Raises UserError for another
        one."""
        path = Path(path)
        if path.suffix not in SUFFIXES:
            raise UserError(
                f"{path}: a chart cannot be written as '{path.suffix}'; expected .png, .svg, .pdf or .html"
            )
        save(self._figure, path)

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The chart as an interactive one or, where the front end has no Vega-Lite, as an image."""
        import vl_convert

        spec, schema = self.spec, "https://vega.github.io/schema/vega-lite/v5.json"
        return {VEGA_LITE: spec | {"$schema": schema}, "image/png": vl_convert.vegalite_to_png(spec, scale=2)}


class Plots:
    """The charts of the report of a replay (`docs/how-to/replay.md`)."""

    def __init__(self, replayed: Callable[[], Replayed]) -> None:
        self._replayed = replayed

    def __repr__(self) -> str:
        return f"Charts: {', '.join(name for name in vars(Plots) if not name.startswith('_'))}"

    def waiting_time(self) -> Chart:
        """The share of jobs that wait for at most a time."""
        return self._of_jobs(waiting_distribution)

    def queue_length(self) -> Chart:
        """The mean number of waiting jobs over time."""
        return self._of_jobs(queue_length)

    def utilisation(self) -> Chart:
        """The share of processors in use over time."""
        requested, n = "requested_number_of_resources", self._processors
        return self._of_jobs(lambda jobs, names: utilisation(jobs, "Processors", requested, n, names))

    def over_time(self) -> Chart:
        """The queue and the processors in use over time, in a window that is drawn in the lowest chart."""
        gpus = int(self._replayed().described["gpus"])
        return self._of_jobs(lambda jobs, names: small_multiples(jobs, names, self._processors, gpus))

    def waiting_by_week_and_size(self) -> Chart:
        """The mean waiting time of jobs of each size by the week of their submission."""
        return self._of_jobs(waiting_by_week_and_size)

    def jobs_by_size_and_run_time(self) -> Chart:
        """The number of jobs of each size and run time."""
        return self._of_jobs(lambda jobs, names: jobs_by_size_and_run_time(next(iter(jobs.values()))))

    def slowdown_by_size_and_run_time(self) -> Chart:
        """The mean bounded slowdown of jobs of each size and run time."""
        return self._of_jobs(slowdown_by_size_and_run_time)

    def slowdown_by_user(self) -> Chart:
        """The mean bounded slowdown of the users with the most processor-hours. Raises UserError if they are
        unknown."""
        jobs, names = self._jobs()
        users = by_user(jobs)
        if users.is_empty():
            raise UserError("the users of this log are unknown; there is no chart of them")
        return Chart(slowdown_by_user(users, jobs, names))

    def slowdown_by_size(self) -> Chart:
        """Bounded slowdown by requested processors: mean, median and 95th percentile."""
        return self._of_jobs(slowdown_by_size)

    def gantt(self, scheduler: str | None = None, window: tuple[Moment, Moment] | None = None) -> Chart:
        """Processors by time under a scheduler (by default the first one), in a window of time since the
        first submission, like ("60d", "67d"), or between two dates; without one, around the job that waited
        longest.

        Raises UserError for an unknown scheduler, and for an empty window.
        """
        jobs, names = self._jobs()
        name = names[0] if scheduler is None and names else scheduler
        if name is None or name not in jobs:
            raise UserError(f"there are no jobs under {name!r}; expected one of {', '.join(jobs)}")
        first_s = float(jobs[name]["submission_time"].to_numpy().min())
        clock = LogClock.described(self._replayed().described, first_s)
        between_s = None
        if window is not None:
            between_s = since_first_s(window[0], clock), since_first_s(window[1], clock)
        if between_s is not None and not between_s[0] < between_s[1]:
            raise UserError(f"window is {window!r}; expected an end after the beginning")
        return Chart(gantt(jobs[name], self._processors, between_s, self._replayed().parts.get(name)))

    @property
    def _processors(self) -> int:
        return int(self._replayed().described["processors"])

    def _of_jobs(self, drawn: Callable[[Jobs, list[str]], Figure]) -> Chart:
        return Chart(drawn(*self._jobs()))

    def _jobs(self) -> tuple[Jobs, list[str]]:
        replayed = self._replayed()
        if not replayed.jobs:
            raise UserError("there are no jobs to draw: every scheduler broke a rule")
        return replayed.jobs, list(replayed.described["schedulers"])
