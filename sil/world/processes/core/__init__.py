"""Processes and messages, event by event, in compiled code."""
