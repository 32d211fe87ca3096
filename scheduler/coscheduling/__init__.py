"""CCS, the coscheduler of CISNE: a daemon on each node that shares it among parallel jobs and its user."""
