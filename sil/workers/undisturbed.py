"""Imported first by a server that forks workers: Ctrl-C in the terminal is for the command, which ends the
server, and does not interrupt an import of the server itself."""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
