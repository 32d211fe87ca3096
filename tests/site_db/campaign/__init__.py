"""A fault campaign for the database: writers that record batches are killed, starved of disk space and cut off,
and afterwards everything is recorded exactly once, with statistics that SQL computes anew.

`work` says what is to be recorded, `writer` is the process that records it, `faults` are what happens inside
of it, `proxy` is what happens on its way to a server, and `oracle` is the judge.
"""
