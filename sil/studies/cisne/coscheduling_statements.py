"""What the paper on CISNE-P states in section 3, and by which rules that is judged."""

from __future__ import annotations

from functools import partial

from sil.studies.ledger import NO_TOLERANCE, Statement, calibrated, not_testable, untestable

MOST_PERCENT = {"turnaround_s": 10.0, "makespan_s": 30.0}
SIMILAR_POINTS = 5.0

_of_inputs = partial(
    Statement,
    rule="it is above 0 in two thirds of the points of the grid of inputs",
    tolerance="in general is in most cases",
)
_of_losses = partial(_of_inputs, caveat=calibrated("the losses without coscheduling are inputs of the model"))
_of_costs = partial(_of_inputs, caveat=calibrated("the costs of user space are inputs of the model"))

EFFECTIVE = _of_losses(
    claim="Dynamic coscheduling is effective in general",
    paper='"In general, these results show the effectiveness of the dynamic coscheduling" (3.1, Figure 5)',
    reading="what coscheduling saves of the makespan (%)",
)

MOST_FOR_D = _of_losses(
    claim="It does most for the workload that communicates most (D)",
    paper='"the best values were obtained by the workload with the highest communication rate (D Workload)" '
    "(3.1, Figure 5)",
    reading="what it saves for D, less what it saves for another workload",
)

GROWS_WITH_MPL = _of_losses(
    claim="Its gain grows with the MPL",
    paper='"this improvement increased according to the value of MPL" (3.1, Figure 5)',
    reading="what it saves at an MPL, less what it saves at the next lower one",
)

LESS_IF_DEDICATED = _of_inputs(
    claim="It gains less in a dedicated cluster",
    paper='"the gain of the dynamic coscheduling is reduced for the case of a dedicated cluster" (3.1, '
    "Figure 5)",
    reading="what it saves in the non-dedicated cluster, less what it saves in the dedicated one",
    caveat=untestable(
        "the paper names the cause, a draw among tasks with as many packets, and the model has no packets"
    ),
)

NOT_TESTABLE_OF_DYN = (
    not_testable(
        "The reason is that tasks with as many packets get the same priority, and one is drawn by lot",
        '"the scheduler assigns the same priority to all these processes so the next parallel process to run '
        'is selected randomly" (3.1)',
        "the model has no packets and no priorities",
    ),
    not_testable(
        "At L = 0.5 and MPL 4 local users wait no longer than 400 ms",
        '"for a social contract of L=0,5 and MPL=4 never exceeds significantly the 400ms" (3.1, of another '
        "paper)",
        "the model is fluid, without time slices to wait for",
    ),
)

BOUNDED = _of_costs(
    claim="User space costs less than 10 % of the turnaround and at most 30 % of the makespan",
    paper='"lower than 10% for the turnaround and 30% for the makespan metric in the worst case" (3.2, '
    "Figures 6 and 7)",
    reading="how far these percentages are above what user space costs",
)

MAKESPAN_IS_SENSITIVE = _of_costs(
    claim="The makespan is more sensitive than the turnaround",
    paper='"The makespan metric is more sensitive to the CCS implementation than the turnaround" (3.2)',
    reading="what user space costs of the makespan, less what it costs of the turnaround (%)",
)

SIMILAR = _of_costs(
    claim="It is similar in a dedicated and in a non-dedicated cluster",
    paper='"this behavior is similar for both kinds of environment, dedicated and non-dedicated cluster" '
    "(3.2)",
    reading=f"how far the difference of what user space costs in both is below {SIMILAR_POINTS:g} points, "
    "half of the paper's 10 %",
)

SHARING_HELPS = Statement(
    "Sharing time as well as space improves performance",
    '"showing the need to combine coscheduling techniques simultaneously together with space-sharing '
    'scheduling policies" (1)',
    "the mean turnaround and makespan of Basic, less those of Normal with an MPL of 4",
    "both are above 0, in both clusters",
    NO_TOLERANCE,
)

INSIGNIFICANT = not_testable(
    "The overheads are almost insignificant, and the system has become portable",
    '"almost insignificant. Beside, the system improved in portability" (4)',
    "a statement without a measure",
    "see the table of what user space costs",
)
