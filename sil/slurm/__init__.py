"""Slurm's unmodified controller in simulated time.

`clock` (the library that is preloaded into its daemons, and what drives it), `installation` (the
executables on this computer), `configuration` (an operator's `slurm.conf`, overlaid), `controller` (one
controller: directory, ports, start, end) and `accounting` (slurmdbd and its database).
"""
