"""The trace: facts of runs, and how they are recorded, written and read. Imports no other stage."""
