"""The papers' studies: what was done there, done here, and each claim held against what came out."""

CASE_STUDIES = ("cs1", "cs2", "cs3", "cs4")
"""Those of Collins and George 2001; each is the module of its name, with a function `study`."""
