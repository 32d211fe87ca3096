"""The messages between Slurm's controller, its nodes and those who submit jobs, in plain Python.

`packing/` (fields, layouts, versions); the bodies of messages: `submission` and `job_description`,
`from_nodes`, `to_nodes`, with `gres` and `job_credential`; `message_types` (their numbers), `envelope`
(header, credential, forwarding, returns), `authentication` and `munge`, `replies`, `return_codes`, and
`exchange` (over a socket). Layouts, numbers and names of the protocol are facts; no code of Slurm
is used.
"""
