"""How many identical nodes are free over time: beside runs, and reservations."""
