"""Tables of the experiential site database, after Figure 1 of Collins and George 2001."""

from site_db.schema.jobs import *  # noqa: F403
from site_db.schema.resources import *  # noqa: F403
from site_db.schema.work import *  # noqa: F403
