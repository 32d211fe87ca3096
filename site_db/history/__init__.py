"""What ran, for how long, and the statistics of it."""
