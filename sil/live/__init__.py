"""The scheduler's ports on this computer, for real: its clock, its cores as machines, processes as runs.

An example of adapters, not a resource manager to run a site with. Linux only.
"""
