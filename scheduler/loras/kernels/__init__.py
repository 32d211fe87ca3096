"""Placing, selecting and predicting on shared nodes, compiled: the live scheduler and the predictor run this.

Jobs are rows of one table, nodes of another (`tables`); a policy is a number, so that one function serves
all compositions. What is decided is the same as in `scheduler.loras.textbook`, which says it in plain words.
"""
