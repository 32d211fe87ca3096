"""Settings of Slurm: those kept of an operator's files, our own, and what daemons have read."""
