"""What the errors of past predictions say of those to come."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from scheduler import registry
from scheduler.time_shared.prediction.by_name import PredictorName
from scheduler.time_shared.prediction.history import Circumstances, Error, ErrorHistory
from site_db.characterisations import Characterisations
from site_db.prediction_errors import KnownError

NOTHING = ErrorHistory(())


def histories(
    errors: Iterable[KnownError], known: Characterisations, scheduler: str
) -> Callable[[PredictorName], ErrorHistory]:
    """What is known of the errors of each predictor under one scheduler. Jobs that need the same are of one
    kind."""
    errors, sizes, meant = list(errors), known.sizes(), registry.meaning(scheduler)
    same = {name for name in {error.scheduler for error in errors} if registry.meaning(name) == meant}
    found: defaultdict[str, list[Error]] = defaultdict(list)
    for error in errors:
        if error.scheduler in same and error.tasks in sizes.get(error.job_class, ()):
            exe_s = known.of(error.job_class, error.tasks).exe_s
            alike = Circumstances.of(exe_s, error.tasks, error.waiting, error.jobs_there)
            found[error.predictor].append(Error(alike, error.ratio))
    made = {predictor: ErrorHistory(of_one) for predictor, of_one in found.items()}
    return lambda predictor: made.get(str(predictor), NOTHING)
