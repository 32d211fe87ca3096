"""Simulated time for unmodified daemons.

A library in C (`native`) has two sides. Preloaded into a daemon, it reads the time from a small file that
all share, and makes threads that wait for a time wait for the clock's driver. Loaded here, it is the
driver: it wakes these threads one at a time, in order of time, and lets the daemons come to rest after
each. `library` compiles and keeps it; `driver` is its side in Python.
"""
