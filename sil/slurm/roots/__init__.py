"""Slurm in a root directory of its own: suites that are unpacked there, and commands that run in one."""
