"""Slurm's accounting as a log: its forms, the repair of its rows, and its jobs."""
