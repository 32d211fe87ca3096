"""Rigid jobs on free nodes: each job holds the nodes that it requests, alone, from its start to its end.

Nodes are identical and numbered.
"""
