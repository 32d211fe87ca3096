"""Mapping: which machine, in which order. One algorithm per file.

Ties everywhere go to the lowest job index, then to the lowest resource index.
"""
