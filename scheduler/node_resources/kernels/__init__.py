"""Compiled parts: which nodes fit a request, scores, allocation, passes, and what is free over time."""
