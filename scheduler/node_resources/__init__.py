"""Nodes with cores, memory, GPUs and other countable resources, of which jobs request parts.

A request consists of equal chunks, each of which one node provides. Quantities are whole numbers: cores and
GPUs in thousandths, memory in MiB.
"""
