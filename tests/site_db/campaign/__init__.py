"""A fault campaign for the database: writers are killed, cut off, or find no space. In the end all is
recorded once, with statistics equal to those that SQL computes anew.

`work` says what is to be recorded, `writer` is the process that records it, `faults` are what happens inside
of it, `proxy` is what happens on its way to a server, and `oracle` is the judge.
"""
