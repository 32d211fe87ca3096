"""What the scheduler takes for real: events, clock, machines, monitors, failures, and the loop."""
