"""The report of a plan: recommendation, tables, charts, page."""
