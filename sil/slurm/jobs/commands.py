"""Commands of operators and users, in the words of Slurm."""

from __future__ import annotations

from datetime import UTC, datetime

from sil.settings.log_events import AtSecond, Command, OfJob
from sil.slurm.jobs.known import KnownJobs


def words_of(command: Command, jobs: KnownJobs, starts_at_s: float) -> list[str] | None:
    """None if the command is about a job that is over or was not accepted. Second 0 of the world is
    `starts_at_s` seconds since the epoch."""
    found: list[str] = []
    for word in command.words:
        match word:
            case OfJob(number=number):
                name = jobs.names.get(number)
                if name is None or jobs.get(name) is None:
                    return None
                found.append(name)
            case AtSecond(key=key, second=second):
                at = datetime.fromtimestamp(starts_at_s + second, UTC)
                found.append(f"{key}={at:%Y-%m-%dT%H:%M:%S}")
            case _:
                found.append(word)
    return found
