"""Priorities, fair share and limits are those of Slurm."""
