"""The simulated world: events, machines, monitors, failures, and the loop that runs them."""

SHOW_TRACEBACKS = "SIL_TRACEBACK"
"""Environment variable: if set, tracebacks of schedulers are printed. Worker processes inherit it."""
