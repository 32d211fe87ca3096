"""The scheduler a site would run: values, ports, algorithms and resource managers.

Nothing here depends on whether the machines behind the ports are real.
"""
