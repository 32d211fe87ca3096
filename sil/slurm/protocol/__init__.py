"""The messages between Slurm's controller, its nodes and those who submit jobs, in plain Python.

`fields`, `layouts` and `releases` (versions of the protocol); the bodies of messages: `submission` and
`job_description`, `from_nodes`, `to_nodes`, with `gres` and `job_credential`; `message_types` (their
numbers), `envelope` (header, credential, forwarding, replies, sockets), `authentication`, and
`return_codes`. Layouts, numbers and names of the protocol are facts; no code of Slurm is used.
"""
