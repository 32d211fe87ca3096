"""What Slurm's controller manages in the replay of a log."""

from __future__ import annotations

import re

from scheduler import UserError
from scheduler.ports import RuntimeEstimator
from sil.settings.estimates import Estimates
from sil.slurm.jobs.submissions import Components
from sil.slurm.world import SlurmWorld
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog, user_names

_COMPONENT = re.compile(r"(\d+)\+(\d+)")


def slurm_world(log: JobLog, estimates: Estimates, run_times: RuntimeEstimator) -> SlurmWorld:
    """Raises UserError for estimates that are not time limits."""
    if estimates is not Estimates.USER:
        raise UserError(
            "Slurm has time limits, which are the users' estimates; replay the log under it with the "
            "estimates 'user'"
        )
    users = user_names(log.jobs["user"].unique(), log.users)
    charged: dict[int, dict[str, str]] = {}
    accounts: dict[str, dict[str, None]] = {}
    if log.charged:
        for job, user, k in log.jobs.select("job", "user", "charged").iter_rows():
            charged[job] = log.charged[k]._asdict()
            if account := log.charged[k].account:
                accounts.setdefault(users[user], {})[account] = None
    return SlurmWorld(
        log.cluster or log.processors,
        [*users.values()],
        run_times.estimate_s,
        charged=charged,
        accounts={user: [*its] for user, its in accounts.items()},
        components=_components(log),
    )


def _components(log: JobLog) -> list[Components]:
    """Those of each heterogeneous job, in order."""
    if LOG_ID not in log.jobs.columns:
        return []
    of_job: dict[str, dict[int, int]] = {}
    for number, name in log.jobs.select("job", LOG_ID).iter_rows():
        if (found := _COMPONENT.fullmatch(name)) is not None:
            of_job.setdefault(found[1], {})[int(found[2])] = number
    return [Components(tuple(jobs[k] for k in sorted(jobs))) for jobs in of_job.values() if len(jobs) > 1]
