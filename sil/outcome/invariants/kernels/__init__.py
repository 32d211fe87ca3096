"""Compiled parts of the check of traces."""
