"""Invariants of traces: a checker that says what is wrong, and a fast one for long traces without faults."""
