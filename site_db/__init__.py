"""The experiential site database: what a site consists of, and what its past runs tell of the next ones.

Imports of ours: `scheduler.model`, `scheduler.queues`, `scheduler.etc`; nothing of the testbed.
"""
