"""Swarm testing: small simulations with random sites, jobs, schedulers and faults, checked by invariants."""
