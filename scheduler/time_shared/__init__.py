"""Parallel jobs on time-shared nodes: LoRaS, the social contract, turnaround prediction."""
