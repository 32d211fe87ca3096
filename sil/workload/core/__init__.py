"""The reader of rows, compiled."""
