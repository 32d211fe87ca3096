"""Facts of a run: recorder, stream, tables. Written by the world, read by everything after it."""
