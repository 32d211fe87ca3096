"""Experiments, replays and live runs, from input to results folder; learning, overhead and checks."""
