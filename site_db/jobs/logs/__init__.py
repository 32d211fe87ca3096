"""Readers of job logs: Slurm's sacct and the Standard Workload Format, as streams of completed runs."""
