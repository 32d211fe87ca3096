"""The testbed: puts a real scheduler in a loop with fake machines, and tells what came of it."""
