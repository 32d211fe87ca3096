"""`sil slurm`: Slurm's controller under test."""
