"""Nodes of which jobs use parts, compiled ahead of time."""
