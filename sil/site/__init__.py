"""The site of an experiment: from a file or a database, with what-if changes."""
