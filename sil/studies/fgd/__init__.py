"""Placement of GPU jobs by fragmentation gradient descent: Weng et al., USENIX ATC 2023."""
