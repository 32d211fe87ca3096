"""Files of users: their text, TOML in them, and where in the text a mistake is."""
