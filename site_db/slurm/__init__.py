"""What the lines of Slurm's configuration mean: nodes, partitions, and what the model ignores."""
