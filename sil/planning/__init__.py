"""Capacity planning: many paired runs of options, until a question is settled."""
