"""The messages between Slurm's controller, its nodes and those who submit jobs, in plain Python.

`fields`, `layouts` and `releases` (versions of the protocol); the bodies of messages: `submission` and
`job_description`, `node_messages`, with `gres` and `job_credential`; `codes` (their numbers, and return
codes), `envelope` (header, credential, forwarding, replies, sockets), and `authentication`. Layouts, numbers
and names of the protocol are facts; no code of Slurm is used.
"""
