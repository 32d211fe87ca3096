"""The exceptions that stand for a mistake of the user's: the message of each is one sentence for them."""

from scheduler.registry import SchedulerNotLoaded
from sil.experiment.matrix import BadMatrix
from sil.experiment.run import UnusableFolder
from sil.outcome.metrics import UnknownMetric
from sil.outcome.trace import NoTrace
from site_db.sites import UnknownSite
from site_db.toml_file import InvalidFile

MISTAKES = (InvalidFile, SchedulerNotLoaded, UnusableFolder, NoTrace, UnknownSite, UnknownMetric, BadMatrix)
