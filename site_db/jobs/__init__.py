"""Jobs and what became of them, from whoever tells of them, into the database."""
