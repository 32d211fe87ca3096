"""Fuzzing: mutated files for every reader."""
