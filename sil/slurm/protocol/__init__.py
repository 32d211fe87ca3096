"""The messages between Slurm's controller, its nodes and those who submit jobs, in plain Python: layouts,
numbers and names of the protocol are facts; no code of Slurm is used."""
