"""Slurm's unmodified controller as a resource manager under test, in simulated time.

`protocol` speaks with the controller, `clock` gives it its time, `installation` finds it, `configuration`
and `settings` make its `slurm.conf`, `running` starts it, with `accounting`; `controller` is it with its
nodes, and `manager` connects it with the simulated world.
"""
