"""Experiment files and their tables, as typed values."""
