"""The scheduler a site would run: value objects, ports, the manager and its algorithms.

Nothing here knows whether the machines behind the ports are real.
"""
