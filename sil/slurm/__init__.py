"""Slurm's unmodified controller as a resource manager under test, in simulated time.

`protocol` speaks with the controller, `clock` gives it its time, `installation` finds it, `configuration`
and `settings` make its `slurm.conf`, `controller` runs it, with `accounting`; `nodes` plays its nodes, and
`manager` connects it with the simulated world.
"""
