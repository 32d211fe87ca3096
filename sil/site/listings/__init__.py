"""What a database knows of a site, as listings."""
