"""Logs of jobs that ran elsewhere, as streams of whole runs: what Slurm's sacct prints, and SWF files."""
