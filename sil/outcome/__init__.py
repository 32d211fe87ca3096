"""Results computed from traces: jobs, metrics, invariants, statistics, comparisons, timelines of jobs.

No text for people beyond sentences, no files but tables: those are in `sil.report`.
"""
