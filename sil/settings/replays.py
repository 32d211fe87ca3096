"""How a log is replayed, and what commands change of an experiment: the settings."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from scheduler.managers.queues import Unkept
from sil.declared import Setting, Settings
from sil.workload.settings import FROM
from sil.world.events import ORDERS


class Engine(StrEnum):
    AUTO = "auto"  # compiled where it can, and the log is not short
    HARNESS = "harness"  # event by event, for all schedulers
    COMPILED = "compiled"  # built-in schedulers on identical processors


class Estimates(StrEnum):
    USER = "user"  # what users requested
    ACTUAL = "actual"  # actual run times
    HISTORY = "history"  # the mean of the user's last two run times


class Expiry(StrEnum):
    NEVER = "never"  # jobs wait until they start
    DEADLINE = "deadline"  # until their deadlines cannot be kept any more, as under Slurm


DECISION_LIMIT_S = 60.0
NONE = "none"
"""The decision cost of decisions that take no simulated time."""


@dataclass(frozen=True, kw_only=True)
class Asking(Settings):
    """How schedulers are asked, and by what engine.

    * `order`: Order of simultaneous events: default; archive, as in published schedules; or batsim (all in
      one message, 10 s later than in the log).
    * `decision_limit_s`: Seconds of wall time that a decision may take.
    * `engine`: What runs the replay, with equal results: compiled, for built-in schedulers on identical
      processors, without decision costs and reasons; harness, for all; or auto: compiled where possible,
      except for few jobs.
    * `seed`: Seed of random schedulers.
    * `determinism_check`: Ask a second instance of schedulers that are not built in, which must decide the
      same.
    * `no_determinism_check`: Accept schedulers that decide differently in two instances. Random ones can
      declare is_random.
    """

    order: Annotated[str, Setting(known=(*ORDERS,))] = "default"
    decision_limit_s: Annotated[float, Setting(least=0.001)] = DECISION_LIMIT_S
    engine: Engine = Engine.AUTO
    seed: Annotated[int, Setting(least=0)] = 1
    determinism_check: bool = True


@dataclass(frozen=True, kw_only=True)
class ReplaySettings(Asking):
    """How one log is replayed.

    * `estimates`: Run-time estimates: the users' own, the actual run times, or the mean of the user's last
      two run times.
    * `expiry`: When jobs with deadlines leave the queue without having run: never, or deadline: as soon as
      their time limits would end after their deadlines (Slurm's state DEADLINE).
    * `unkept`: What becomes of a job with a deadline if a forecast on its arrival says that it, or a job that
      was admitted before, would miss its deadline: accepted, without a forecast; best_effort, as a job
      without a deadline; or refused.
    * `decision_cost`: Simulated time charged for decisions: none, fixed(seconds=0.5), measured(factor=10),
      modelled(seconds=1e-6, a=1, b=1) for seconds * jobs^a * processors^b, or replayed(trace='OUT/easy') for
      the charges of an earlier run.
    * `memory_limit_mb`: MB of memory for a scheduler that is not built in, which has a process of its own
      then. Default: no limit.
    * `reasons`: Record in the trace why jobs wait (for `sil why`).
    * `slurm_step_s`: Seconds from one look of Slurm's controller to the next while jobs only wait: 1 is
      accurate, 30 is faster.
    * `checkpoint_interval_s`: Jobs save what they have done after this much work, and restart from there when
      their run was lost or preempted. Default: they restart from the beginning.
    * `checkpoint_cost_s`: Time that a checkpoint takes, which lengthens run times and estimates.
    * `pause_at_s`: Pause Slurm's controller at this second of the log, to look at it with squeue, sinfo,
      sdiag, sprio and scontrol from another terminal.
    """

    estimates: Estimates = Estimates.USER
    expiry: Expiry = Expiry.NEVER
    unkept: Unkept = Unkept.ACCEPTED
    decision_cost: str = NONE
    memory_limit_mb: Annotated[float | None, Setting(least=1.0)] = None
    reasons: bool = False
    slurm_step_s: Annotated[float, Setting(least=0.1, most=600.0)] = 1.0
    checkpoint_interval_s: Annotated[float | None, Setting(least=1.0)] = None
    checkpoint_cost_s: Annotated[float, Setting(least=0.0)] = 0.0
    pause_at_s: Annotated[float | None, Setting(least=0.0)] = None


@dataclass(frozen=True, kw_only=True)
class WithEvents(Settings):
    """What happens besides.

    * `events`: TOML file of drains, outages and reservations of nodes, and of arrays, dependencies, begin
      times, holds and cancellations; or the output of `scontrol show reservation`. May be repeated.
    """

    events: Annotated[list[Path] | None, Setting(metavar="FILE")] = None


@dataclass(frozen=True, kw_only=True)
class Replaying(WithEvents, ReplaySettings):
    """How one log is replayed, and what happens meanwhile."""


@dataclass(frozen=True, kw_only=True)
class OfAccounting(Settings):
    """Which jobs of accounting count, and how they are replayed.

    * `since`: Only jobs submitted at or after this time (UTC, or of --time-zone).
    * `warm_up_days`: Days before --from that are replayed, and do not count: two half-lives of usage.
    * `slurm_step_s`: Seconds from one look of Slurm's controller to the next while jobs only wait: 1 is
      accurate, 30 is faster.
    """

    since: Annotated[datetime | None, FROM] = None
    warm_up_days: Annotated[float, Setting(least=0.0)] = 14.0
    slurm_step_s: Annotated[float, Setting(least=0.1, most=600.0)] = 30.0


@dataclass(frozen=True, kw_only=True)
class Rehearsing(OfAccounting):
    """What varies in a rehearsal of Slurm's controller.

    * `to`: Another Slurm: a prefix like /opt/slurm-26.05, or a root directory. Repeatable.
    * `settings`: Other settings, like SchedulerParameters=bf_interval={10,30,60}: one variant for each of the
      values in braces. Repeatable, for all combinations.
    * `time_zone`: Of dates, and of local times in Slurm's accounting, like Europe/Berlin. Default: UTC.
    """

    to: list[str] | None = None
    settings: Annotated[list[str] | None, Setting(option="--set")] = None
    time_zone: Annotated[str | None, Setting(metavar="ZONE")] = None


@dataclass(frozen=True, kw_only=True)
class Place(Settings):
    """Where the site of an experiment or a plan is.

    * `site`: A site in a database instead of the one in the file: site.db, sqlite:///site.db#SITE or
      postgresql://user@host/database#SITE.
    """

    site: Annotated[str | None, Setting(metavar="DATABASE#SITE")] = None


@dataclass(frozen=True, kw_only=True)
class AtSite(Place):
    """What is done with the history of a site in a database.

    * `learn`: Record completed runs in the database of --site.
    * `as_of`: Estimate run times from the history of --site up to this run.
    """

    learn: bool = False
    as_of: Annotated[int | None, Setting(least=0, metavar="RUN")] = None


@dataclass(frozen=True, kw_only=True)
class Overrides(Place):
    """What a command changes of a file.

    * `scheduler`: Override those in the file. May be repeated; the first is the baseline.
    * `seed`: Override the seed in the file.
    * `bounded_slowdown_threshold_s`: Override bounded_slowdown_threshold_s in the file.
    * `no_determinism_check`: Accept schedulers that decide differently in two instances. Random ones can
      declare is_random.
    * `trust`: Run the modules and commands that the file or its site names, without a question. Schedulers
      given as options are trusted.
    """

    scheduler: list[str] | None = None
    seed: Annotated[int | None, Setting(least=0)] = None
    bounded_slowdown_threshold_s: Annotated[float | None, Setting(least=0.001, most=1e9)] = None
    determinism_check: bool = True
    trust: bool = False

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that replace those of the file."""
        return {
            "schedulers": tuple(self.scheduler) if self.scheduler else None,
            "seed": self.seed,
            "guard": {} if self.determinism_check else {"ask_twice": False},
            "bounded_slowdown_threshold_s": self.bounded_slowdown_threshold_s,
        }


@dataclass(frozen=True, kw_only=True)
class PlanOverrides(Overrides):
    """What a command changes of a plan.

    * `budget`: Override the budget in the file.
    * `validation`: Folder of a `sil validate` at the site: says whether it is good enough for purchases.
    """

    budget: float | None = None
    validation: Annotated[str | None, Setting(metavar="FOLDER")] = None

    @property
    def changes(self) -> dict[str, Any]:
        return {**super().changes, "budget": self.budget}


@dataclass(frozen=True, kw_only=True)
class ExperimentOverrides(Overrides, AtSite):
    """What a command changes of an experiment.

    * `replications`: Override the number in the file.
    * `reasons`: Record in the trace why jobs wait (for `sil why`).
    * `add`: Add notional machines of a class; '8 x CLASS as cluster NAME over INTERCONNECT' makes them a
      cluster. May be repeated.
    * `remove`: Remove machines, by class or by name. May be repeated.
    * `upgrade`: Replace machines by those of another class. May be repeated.
    """

    replications: Annotated[int | None, Setting(least=1)] = None
    reasons: bool = False
    add: Annotated[list[str] | None, Setting(metavar="'8 x CLASS'")] = None
    remove: Annotated[list[str] | None, Setting(metavar="'4 x CLASS'")] = None
    upgrade: Annotated[list[str] | None, Setting(metavar="'8 x CLASS to CLASS'")] = None

    @property
    def changes(self) -> dict[str, Any]:
        found = super().changes
        found["guard"] |= {"reasons": True} if self.reasons else {}
        notional = {verb: getattr(self, verb) or () for verb in ("add", "remove", "upgrade")}
        return {**found, **notional, "replications": self.replications}
