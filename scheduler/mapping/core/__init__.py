"""Min-min and Max-min by classes, compiled: the schedules of the reference versions in far fewer steps.

Jobs of one class have the same row in the ETC matrix, machines of one class the same column; a matrix without
structure is the case in which every class has one member. These ideas carry both algorithms:

* `lines`: machines of one class that are ready at the same time are interchangeable: a *run*; those
  ready first are the *front*. While a choice repeats, the whole front gets jobs in one step.
* `min_min`: the least completion of all is the least, over machine classes, of ready time + shortest job
  left. `Sorting` sorts the job classes of each machine class by time as far as needed, for all mappings of
  the same jobs; `Heads` are the first with jobs left, and those with equal times a heap by lowest job.
* `max_min`: ready times only grow, so the completion on the machine that was best at the last evaluation is
  an upper bound. `groups` are job classes by that machine class, the longest at the root, so that one ready
  time raises the bounds of a whole group; only roots are evaluated, and blocks of similar classes first.
* `LeastWork`: a lower bound that shows early that a mapping cannot be the better one.

Ties: the lowest job, then the lowest machine, also where sums are equal only by rounding.
"""
