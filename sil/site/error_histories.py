"""The errors of past predictions, by predictor."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from scheduler.registry import SchedulerSpec, key_of
from scheduler.time_shared.forecast import Circumstances, Error, ErrorHistory
from sil.site.time_shared_cluster import Characterisations
from site_db.prediction_errors import KnownError

if TYPE_CHECKING:
    from scheduler.time_shared.predictors import PredictorName  # loads compiled functions

NOTHING = ErrorHistory(())


def histories(
    errors: Iterable[KnownError], known: Characterisations, scheduler: SchedulerSpec
) -> Callable[[PredictorName], ErrorHistory]:
    """The errors of each predictor under one scheduler. Jobs with equal requirements are of one kind."""
    errors, sizes = list(errors), known.sizes()
    names = {error.scheduler for error in errors}
    same = {name for name in names if key_of(name) == scheduler.key}
    found: defaultdict[str, list[Error]] = defaultdict(list)
    for error in errors:
        if error.scheduler in same and error.tasks in sizes.get(error.job_class, ()):
            exe_s = known.of(error.job_class, error.tasks).exe_s
            alike = Circumstances.of(exe_s, error.tasks, error.waiting, error.jobs_there)
            found[error.predictor].append(Error(alike, error.ratio))
    by_predictor = {predictor: ErrorHistory(of_one) for predictor, of_one in found.items()}
    return lambda predictor: by_predictor.get(str(predictor), NOTHING)
