"""Site files: their tables, validation, reading and writing, and their import into a database."""
