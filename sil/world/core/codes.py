"""Codes of the compiled loop."""

ROUND, WAKE_UP, ARRIVAL, RELEASE, END = range(5)
"""Kinds of events."""

ALL_ENDED, CHUNK, STUCK, PAUSE = range(4)
"""Why the loop returns."""

ARRIVED, STARTED, ENDED, REFUSED = range(4)
"""Codes of facts."""

USER, ACTUAL, HISTORY = range(3)
"""Codes of run-time estimators."""

GOES_ON, ASKS = PAUSE, 7
"""States of a replay with a policy, besides those in which the loop returns: it is to go on; the policy is to
choose."""

NO_ANSWER = -1
NO_JOB = -1
