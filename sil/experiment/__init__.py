"""One experiment: its file, how its parts are wired, and how its many runs are carried out."""
