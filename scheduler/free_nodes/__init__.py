"""Rigid jobs on free nodes: each job has as many nodes as it asks for, alone, from its start to its end.

This is LoRaS with a multiprogramming level of one, on a machine whose nodes are alike and have names.
"""
