"""The scheduler a site would run: values, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real.
"""


class UserError(ValueError):
    """An error that the user can correct. The message is one sentence for the user."""
