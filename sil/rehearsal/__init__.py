"""Last month under Slurm's present controller and settings, and under others."""

REHEARSAL = "rehearsal.json"
"""The file of a rehearsal's results in its folder."""
