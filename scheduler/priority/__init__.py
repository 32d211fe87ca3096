"""Which waiting job comes first, and which must wait whatever is free: the priorities and limits of Slurm."""
