"""Mapping jobs to machines and clusters.

Ties everywhere go to the lowest job index, then to the lowest resource index.
"""
