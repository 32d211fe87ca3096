"""Compiled parts: which nodes fit a request, scores of nodes, allocation."""
