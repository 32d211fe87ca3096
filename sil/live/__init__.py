"""This computer in place of simulated machines: real processes, in real time."""
