"""Presentation of results: the page builder, the charts, the tables for the terminal.

`page` is the builder, which `experiment`, `replay`, `sil.planning.report` and `sil.studies` use.
"""
