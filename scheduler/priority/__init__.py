"""Which of the waiting jobs comes first, and which must wait whatever is free: Slurm's priorities and limits."""
