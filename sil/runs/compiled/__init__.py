"""The replay of a log by the compiled engine."""
