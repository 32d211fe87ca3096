"""Tables of experiment files for what goes wrong in the simulated world."""
