"""Whose code a file may run: experiments, plans and sites name schedulers, also modules and commands."""

from scheduler import UserError


class Untrusted(UserError):
    """A file names code that the user has not allowed to run. The message is one sentence for the user."""
