"""Imported first by a server that forks workers: Ctrl-C in the terminal is for the command, which ends the
server, and does not interrupt an import of the server itself. Workers have the environment of the user."""

import signal

from sil.workers.servers import forget_safe_path

signal.signal(signal.SIGINT, signal.SIG_IGN)
forget_safe_path()
