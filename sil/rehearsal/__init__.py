"""Last month under Slurm's present controller and settings, and under others."""

REHEARSAL = "rehearsal.json"
"""In a results folder."""
