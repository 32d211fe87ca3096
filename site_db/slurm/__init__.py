"""What Slurm's configuration and its commands say: lines, JSON, durations, nodes, partitions."""
