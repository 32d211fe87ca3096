"""The replay of rigid jobs on identical nodes in compiled code: the events of the harness, in the same order.

`loop` runs a queue of the scheduler package in a simulated world, and notes `facts`. `engine` runs it in
chunks, which `tables` turns into those of a trace.
"""
