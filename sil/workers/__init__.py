"""Executors (inline, processes, Dask) and the watchdog."""
