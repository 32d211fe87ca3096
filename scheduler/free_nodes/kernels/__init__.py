"""The compiled parts of scheduling rigid jobs.

`queue_tree` is an index of the waiting jobs; `free_over_time` has the expected ends of runs; `backfilling`
decides which jobs start now, `reservations` reserves a start for every job.
"""
