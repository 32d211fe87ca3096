"""Codes of the compiled loop, and the columns of what a policy sees of a queue of identical nodes."""

from __future__ import annotations

from math import log1p

ROUND, WAKE_UP, ARRIVAL, CHANGE, RELEASE, END, ACT, NEWS, STOP, GIVE_UP = range(10)
"""Kinds of events; those from NEWS on follow others of the same instant."""

ALL_ENDED, CHUNK, STUCK, PAUSE = range(4)
"""Why the loop returns."""

ARRIVED, STARTED, ENDED, REFUSED, INELIGIBLE, ELIGIBLE, PREEMPTED, LOST = range(8)
DOWN, UP, STOPPED, CONTINUED, CHANGED = range(8, 13)
"""Codes of facts."""
HOLDING = STARTED, PREEMPTED, STOPPED, CONTINUED
"""Those that state the nodes of a run."""

USER, ACTUAL, HISTORY = range(3)
"""Codes of run-time estimators."""

GOES_ON, ASKS = PAUSE, 7
"""States of a replay with a policy, besides those in which the loop returns: it is to go on; the policy is to
choose."""

NO_ANSWER = -1
NO_JOB = -1

OF_SIZE, OF_ESTIMATE, OF_WAIT, FITS, IS_IN_TIME = range(5)
"""Columns of a job: nodes, as a share of all; estimated run time and time waited, scaled; 1 if the job fits
now; 1 if it also does not delay the first waiting job, by the reservation of EASY."""

OF_FREE, OF_WAITING, OF_RESERVATION, OF_SPARE, OF_HORIZONS = range(5)
"""Columns of the machine: free nodes, as a share of all; n / (n + window) for n waiting jobs; the time to the
reservation of the first one, scaled; the nodes that are spare then, as a share of all; from OF_HORIZONS on
the nodes that are expected to be free at each of HORIZONS_S from now, as a share of all."""

HORIZONS_S = (600.0, 3_600.0, 14_400.0, 86_400.0)
N_OF_JOB, N_OF_MACHINE = 5, OF_HORIZONS + len(HORIZONS_S)

LARGEST = log1p(365.0 * 86_400.0)
"""The scaled time of a year."""
