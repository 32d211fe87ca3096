"""Nodes of which jobs use parts: the configuration for them, and whether a given one has the same."""
