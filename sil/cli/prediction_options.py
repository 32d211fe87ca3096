"""What `sil predict` is asked: the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sil.declared import Setting, Settings
from sil.site.logs import LogFile


@dataclass(frozen=True, kw_only=True)
class PredictionOptions(LogFile):
    """Which predictions, of what.

    * `site`: A site in a database (site.db#SITE): its nodes; for a queue file also a site file or the name of
      a built-in site. Past prediction errors in a database give the intervals of a queue file.
    * `scheduler`: The scheduler. Default: easy, or normal_easy for a queue file.
    * `submit`: Predict a hypothetical job submitted now: CPUS/TIME or NODES/CPUS/TIME, such as 64/12h, beside
      smaller and shorter ones; in a queue file CLASS:TASKS, such as CG.B:4.
    * `job`: Predict only this job.
    * `by`: Whether completion by then can be promised: a duration from now (900, 15m, 2h), or of a queue file
      a time (2026-11-22T17:00). Of a log it is for --submit, and also says which jobs would be delayed.
    """

    site: Annotated[str | None, Setting(metavar="SITE")] = None
    scheduler: str | None = None
    submit: Annotated[str | None, Setting(metavar="JOB")] = None
    job: str | None = None
    by: Annotated[str | None, Setting(metavar="TIME")] = None


@dataclass(frozen=True, kw_only=True)
class OfQueueFile(Settings):
    """What is asked of a queue file.

    * `shared_nodes`: Of a queue file: the time-shared cluster; optional if the site has only one.
    * `predictor`: Of a queue file: aware, blind or hybrid, optionally with methods, as in 'blind mpl-mpl'
      (default cpu-cpu).
    """

    shared_nodes: Annotated[str | None, Setting(option="--cluster")] = None
    predictor: str = "aware"


@dataclass(frozen=True, kw_only=True)
class OfLog(Settings):
    """What is asked of a log.

    * `every`: Of a log: all jobs that run or wait, not only the first ones that wait.
    * `at`: Of a log: now, as a date, or as seconds or a duration since the first submission, like 60d.
      Default: when the accounting was printed, and the last submission of other logs.
    * `events`: Of a log: TOML file of drains, outages and reservations of nodes, and of arrays, dependencies,
      begin times, holds and cancellations; or the output of `scontrol show reservation`. May be repeated.
      What happens after an earlier --at is not known.
    * `user`: Of a log: who submits the hypothetical job. Default: anyone.
    * `partition`: Of a log: to which partition. Default: the one with Default=YES in slurm.conf, if there is
      one, else any.
    * `horizon`: Of a log: also forecast the waits of jobs that arrive within this duration, at most 7d, by
      partition.
    * `score`: Of a log: instead, forecast this number of its jobs when they were submitted, and compare with
      what happened: in the accounting, else in the replay.
    * `samples`: Of a log: how often the present is run forward. Default: 200; 20 under policies that are not
      compiled, 3 under Slurm's controller.
    * `seed`: Of a log: seed of run times and arrivals.
    """

    every: Annotated[bool, Setting(option="--all")] = False
    at: Annotated[str | None, Setting(metavar="TIME")] = None
    events: Annotated[list[Path] | None, Setting(metavar="FILE")] = None
    user: str | None = None
    partition: str = ""
    horizon: Annotated[str | None, Setting(metavar="DURATION")] = None
    score: Annotated[int | None, Setting(least=1)] = None
    samples: Annotated[int | None, Setting(least=1, most=10_000)] = None
    seed: Annotated[int, Setting(least=0)] = 1
