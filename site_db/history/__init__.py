"""Execution history: completed runs and their statistics."""
