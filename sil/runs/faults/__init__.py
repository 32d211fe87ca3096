"""What goes wrong in the simulated world of an experiment: its tables, resolved at its site."""
