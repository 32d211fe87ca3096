"""Execution models: what becomes of a run once it is started."""
