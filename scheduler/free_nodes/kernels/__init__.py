"""The compiled parts of scheduling rigid jobs.

`queue_tree` keeps what waits so that a pass need not walk all of it; `releases` what is believed of the ends
of runs; `passing` decides which jobs start now; `planning` keeps a reservation for every job.
"""
