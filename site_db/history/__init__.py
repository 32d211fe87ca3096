"""Execution history: completed runs, and statistics of them that are kept up to date."""
