"""Placing, selecting and predicting on shared nodes, compiled: the live scheduler and the predictor run this.

Jobs are rows of one table, nodes of another (`tables`); a policy is a number, so that one function serves
all compositions. Tests compare its decisions with those of a plain reference version.
"""
