"""Tables of the experiential site database, after Figure 1 of Collins and George 2001."""

from site_db.schema.experience import (
    ExecutionHistoryRow as ExecutionHistoryRow,
)
from site_db.schema.experience import (
    ExecutionSnapshotRow as ExecutionSnapshotRow,
)
from site_db.schema.experience import (
    ExecutionStatisticsRow as ExecutionStatisticsRow,
)
from site_db.schema.jobs import JobRow as JobRow
from site_db.schema.jobs import PredictionRow as PredictionRow
from site_db.schema.jobs import RecordingRow as RecordingRow
from site_db.schema.jobs import SourceRow as SourceRow
from site_db.schema.resources import ClusterInterconnectRow as ClusterInterconnectRow
from site_db.schema.resources import ClusterMemberRow as ClusterMemberRow
from site_db.schema.resources import ClusterRow as ClusterRow
from site_db.schema.resources import InterconnectRow as InterconnectRow
from site_db.schema.resources import MachineClassRow as MachineClassRow
from site_db.schema.resources import MachineInterconnectRow as MachineInterconnectRow
from site_db.schema.resources import MachineRow as MachineRow
from site_db.schema.resources import OfSite as OfSite
from site_db.schema.resources import SiteRow as SiteRow
from site_db.schema.resources import SocialContractRow as SocialContractRow
from site_db.schema.states import ClusterStateRow as ClusterStateRow
from site_db.schema.states import InterconnectStateRow as InterconnectStateRow
from site_db.schema.states import MachineStateRow as MachineStateRow
from site_db.schema.tables import Base as Base
from site_db.schema.work import AllowedPlaceRow as AllowedPlaceRow
from site_db.schema.work import CharacterisationRow as CharacterisationRow
from site_db.schema.work import JobClassRow as JobClassRow
from site_db.schema.work import PreferenceRow as PreferenceRow
from site_db.schema.work import QueueDisplacesRow as QueueDisplacesRow
from site_db.schema.work import QueueRow as QueueRow
from site_db.schema.work import QueueUserRow as QueueUserRow
from site_db.schema.work import SubmissionRightRow as SubmissionRightRow
from site_db.schema.work import UserQueueRow as UserQueueRow
from site_db.schema.work import UserRow as UserRow
from site_db.schema.work import UserUsageRow as UserUsageRow
