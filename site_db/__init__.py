"""The experiential site database: what a site consists of, and what its past runs tell of the next ones.

Of this project it imports values of `scheduler` only, and nothing of the testbed.
"""
