"""Schedulers in processes of their own that speak Batsim's protocol, version 4.

`naming` (what a name like `batsim: COMMAND` asks for), `command` (the process, started and ended), `endpoint`
(the socket), `messages` (what goes over it), `manager` (the resource manager that such a scheduler is, with
its `book`). And the other way round: `requests` and `serving`.
"""
