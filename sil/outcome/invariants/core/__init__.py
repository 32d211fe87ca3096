"""The fast check of traces, compiled."""
