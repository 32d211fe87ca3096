"""Machines that the resource manager reaches over an unreliable network, and a manager that crashes."""
