"""What accounting recorded, against its replay under a site's policies, and under others."""

REHEARSAL = "rehearsal.json"
"""The file of a rehearsal's results in its folder."""
