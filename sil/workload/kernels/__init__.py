"""Compiled parts of readers of logs."""
