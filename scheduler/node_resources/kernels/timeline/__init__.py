"""What is free on nodes over time: uses by runs, and reservations."""
