"""The experiential site database: the resources of a site, its history, and the estimates derived from it.

Modules here open databases (`store`), read and copy sites (`sites`, `exchange`), estimate run times
(`estimation`, `experience`) and read files of users (`files`). Of this project they import only values of
`scheduler`.
"""
