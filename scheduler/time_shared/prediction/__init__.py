"""Turnaround prediction on time-shared nodes, its error histories, and promised limits."""
