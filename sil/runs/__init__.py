"""The composition root: builds and runs a world on machines, on time-shared nodes, on a log."""
