"""Site files in TOML: tables, validation, import and export."""
