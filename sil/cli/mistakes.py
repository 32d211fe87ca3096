"""The exceptions that stand for a mistake of the user's: the message of each is one sentence for them."""

from scheduler.registry import SchedulerNotLoaded
from sil.batsim.naming import CannotListen
from sil.batsim.requests import BadRequest
from sil.experiment.decision_costs import BadDecisionCost
from sil.experiment.imagined_site import CannotImagine
from sil.experiment.matrix import BadMatrix
from sil.experiment.new_scheduler import CannotBegin
from sil.experiment.nodes_of_site import NotShared
from sil.experiment.output_folder import UnusableFolder
from sil.experiment.queue_file import CannotPredict
from sil.experiment.run import NoDatabase
from sil.live.processes import CannotRunLive, JobFailed
from sil.outcome.metrics import UnknownMetric
from sil.outcome.trace import NoTrace
from sil.planning.answers import Overloaded
from sil.planning.runs import RunDied
from sil.planning.samples import GoalNeverMeasured
from sil.planning.workers import NoEngine
from sil.workload.job_log import BadLog
from site_db.history.as_of import PrunedHistory
from site_db.importing import SiteConflict
from site_db.jobs.arrived import NothingArrived
from site_db.jobs.writer import BadRecord, TakenInBefore
from site_db.sites import UnknownSite
from site_db.states import NotSeenThere, UnknownResource
from site_db.store import DatabaseTrouble
from site_db.toml_file import InvalidFile

MISTAKES = (
    BadDecisionCost,
    BadLog,
    BadMatrix,
    BadRecord,
    BadRequest,
    CannotBegin,
    CannotImagine,
    CannotListen,
    CannotPredict,
    CannotRunLive,
    JobFailed,
    DatabaseTrouble,
    GoalNeverMeasured,
    InvalidFile,
    NoTrace,
    NothingArrived,
    NotSeenThere,
    NotShared,
    NoDatabase,
    NoEngine,
    Overloaded,
    PrunedHistory,
    RunDied,
    SchedulerNotLoaded,
    SiteConflict,
    TakenInBefore,
    UnknownMetric,
    UnknownResource,
    UnknownSite,
    UnusableFolder,
)
