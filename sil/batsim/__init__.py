"""Schedulers in processes of their own that speak Batsim's protocol, version 4.

`naming` (names like `batsim: COMMAND`), `process` (the process and the socket), `messages`, `manager` (the
scheduler as a resource manager), `session` (its unfinished jobs) and `nodes`. `serving` offers our schedulers
to other simulators.
"""
