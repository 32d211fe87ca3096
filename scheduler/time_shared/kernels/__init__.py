"""Placing, selecting and predicting on shared nodes, compiled: the live scheduler and the predictor run this.

Jobs are rows of one table, nodes of another (`tables`); a policy is a number, so that one function serves
all compositions. The decisions equal those of `scheduler.time_shared.reference`, the readable version.
"""
