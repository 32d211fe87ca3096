"""Jobs and their completed runs: from logs, CSV files and experiments into the database."""
