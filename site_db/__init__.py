"""The experiential site database: the resources of a site, its history, and the estimates derived from it.

Modules here open databases (`store`), read and copy sites (`relations`, `site_rows`, `sites`, `copying`),
estimate run times (`estimation`, `experience`) and read TOML files (`toml_file`). Of this project the package
imports only values of `scheduler`.
"""
