"""Min-min and Max-min by classes, compiled: the schedules of the reference versions in far fewer steps.

Jobs of one class have the same row in the ETC matrix, machines of one class the same column; a matrix without
structure is the case in which every class has one member. These ideas carry both algorithms:

* `lines`: machines of one class that are ready at the same time are interchangeable. They stand in line as
  *runs*, those ready first at the *front*. As long as a choice repeats, the whole front is given jobs at
  once.
* `min_min`: the least completion of all is the least, over machine classes, of ready time + shortest job
  left. So each machine class needs its job classes in order of time, and only as far as it gets: `sorting`
  brings them into order bit by bit, and serves all later mappings of the same jobs. Its `Heads` are the
  first classes with jobs left; job classes that take equally long are a heap by the lowest job left.
* `max_min`: ready times only grow, so a job is done on its best machine no later than on the one that was
  best when it was last looked at. `groups` holds job classes by that machine class, the longest on top, so
  that the bounds of a whole group rise by themselves when its machine gets a job; only who is on top is
  looked at, and of job classes that are alike first the blocks.
* `least_work`: a bound that tells early that a mapping cannot be the better one any more.

Ties: the lowest job, then the lowest machine. Sums that are equal only by rounding are ties, too.
"""
