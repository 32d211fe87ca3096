"""Compiled queues in Python. `kernels` change what is in their arrays.

`arrays`, `identical`, `consumable` and `reservations` make empty arrays and larger ones. `growing` holds
those of identical nodes for a manager; `free_set`, `waiting` and `releases` are what schedulers read of them.
"""
