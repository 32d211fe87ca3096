"""Slurm's unmodified controller as a resource manager under test, in simulated time."""
