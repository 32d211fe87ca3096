"""Last month under Slurm's present controller and settings, and under others."""
