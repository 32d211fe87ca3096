"""Runs schedulers and managers under test: time limits, determinism check, faults, decision cost."""
