"""What accounting recorded, against its replay under a site's policies, and under others."""

REHEARSAL, VALIDATION = "rehearsal.json", "validation.json"
"""The files in the folders of rehearsals and validations that say what was replayed."""
