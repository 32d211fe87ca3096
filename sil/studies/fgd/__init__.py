"""Placement of GPU jobs by fragmentation gradient descent.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023.
"""
