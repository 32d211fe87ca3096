"""Min-min and Max-min by classes, compiled: the schedules of the reference versions in far fewer steps.

Jobs of one class have the same row in the ETC matrix, machines of one class the same column; a matrix without
structure is the case in which every class has one member. `lines` has the machines: those of one class that
are ready at the same time are interchangeable, and while a choice repeats, all of them get jobs in one step.
Ties: the lowest job, then the lowest machine, also where sums are equal only by rounding.
"""
