"""Node selection, job selection and prediction on time-shared nodes: one code for scheduler and predictor.

Jobs are rows of one table, nodes of another (`tables`); a policy is a number, so that one function serves
all compositions. Tests compare its decisions with those of a plain reference version.
"""
