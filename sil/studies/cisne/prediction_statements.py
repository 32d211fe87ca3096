"""What Hanzich et al. 2006 state in section 4.1, and by which rules that is judged."""

from __future__ import annotations

from sil.studies.ledger import NO_TOLERANCE, Statement, untestable

REACHED_PERCENT = 12.5
ALMOST_ALWAYS_PERCENT = 95.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0
PARTLY = "partly: in two thirds of them"
ONE_IN_TWENTY = "one job in twenty, by chance"
FASTER = untestable("milliseconds of a Pentium 4 say nothing of those of this computer")
CPU_DEVIATES_MORE = "how much more CPU-CPU deviates than MPL-MPL"


IN_ORDER_IS_BETTER = Statement(
    "Policies that keep the FCFS order are more predictable than backfilling",
    '"those policies that respect an FCFS order for the waiting jobs are more predictable than those '
    'that alter the job ordering, like Backfilling" (abstract; 12 of 12 cells of Table 1)',
    "the deviation with backfilling, less that without, by node selection, load and method",
    f"it is above 0 in every cell; {PARTLY}",
    NO_TOLERANCE,
)

UNIFORM_IS_BETTER = Statement(
    "Uniform is more predictable than Normal",
    '"a Uniform policy favors the predictability of the system over a Normal policy" (4.1; 3 of 6 '
    "cells "
    "of Table 1)",
    "the deviation of Normal, less that of Uniform, by load and method",
    f"it is above 0 in every cell; {PARTLY}",
    NO_TOLERANCE,
)

TWELVE_PERCENT = Statement(
    "Policies that distribute resources in a balanced way reach an accuracy of 12 %",
    '"those policies that distribute the resources in a more balanced way are more predictable '
    "reaching "
    'an accuracy of 12%" (1); the best cell of Uniform is 8.67 %',
    "the deviation in the best cell of Uniform",
    f"it is below {REACHED_PERCENT:g} %",
    "the paper rounds to whole percents",
)

SAME_RESOURCES = Statement(
    "The reason is that the tasks of a job have the same resources",
    '"the tasks forming a parallel application have the same resources and then they can evolve '
    'jointly" '
    "(4.1)",
    "the deviation of Normal, less that of Uniform that mixes sets rather than wait, where tasks "
    "have "
    "the same resources more often than under Normal and jobs wait no longer",
    f"it is above 0 in every cell; {PARTLY}",
    NO_TOLERANCE,
)

BASIC_IS_WORSE = Statement(
    "Basic is less predictable than Normal or Uniform in some cases",
    '"a Basic policy performs worse than Normal or Uniform for some cases" (4.1)',
    "the deviation of Basic, less that of another",
    "it is above 0 in some cell",
    NO_TOLERANCE,
)

LONG_QUEUE = Statement(
    "The reason is that the longer the queue, the less accurate the prediction",
    '"the waiting queue length increases and hence the waiting time prediction become less accurate" (4.1)',
    "the deviation of Basic, less that of another under which jobs wait less",
    f"it is above 0 in every cell; {PARTLY}",
    NO_TOLERANCE,
)

ORDER_VARIES = Statement(
    "Backfilling is hard to predict since the order of the queue varies",
    '"due to the difficulty of tracking the variation in the order of the elements in the waiting '
    'queue" '
    "(4.1)",
    "with backfilling, the deviation of the blind predictor, less that of the one that follows the order",
    f"it is above 0 in every cell; {PARTLY}",
    NO_TOLERANCE,
)

LOAD_HELPS = Statement(
    "With backfilling, the deviation falls as the local load grows",
    '"the increment in the accuracy of the estimation methods for the policies that include '
    "Backfilling "
    'when the local load increases" (4.1; 6 of 8 steps in Table 1)',
    "the fall of the deviation from each load to the next, by node selection and method",
    f"it is above 0 at every step; {PARTLY}",
    NO_TOLERANCE,
)

FEWER_CHANCES = Statement(
    "The reason is that there are fewer opportunities to backfill",
    '"when the local load increases, the available resources decrease, as do the opportunities to '
    'backfill a job" (4.1)',
    "how many jobs fewer overtake others from each load to the next",
    f"above 0 at every step, for both policies; {PARTLY}",
    NO_TOLERANCE,
)

MIXING_HELPS = Statement(
    "That Uniform mixes jobs bound by communication and by computation improves time sharing",
    '"tries to execute tasks of different oriented applications [...] in the same set of nodes '
    "trying to "
    'enhance the underlying Time-Sharing schema" (4)',
    "the mean turnaround under Normal, less that under Uniform",
    f"it is above 0 at every load; {PARTLY}",
    NO_TOLERANCE,
)

CPU_IS_BETTER = Statement(
    "CPU-CPU is more accurate than MPL-MPL in most cases",
    '"gives us a better estimate than the MPL-MPL method in most of the cases" (4.1; 10 of 15 cells '
    "of "
    "Table 1)",
    "the deviation by MPL-MPL, less that by CPU-CPU, by policy and load",
    "it is above 0 in 10 of the 15 cells",
    "the paper's own count: two thirds",
)

PESSIMISTIC = Statement(
    "There, the CPU-CPU prediction is always pessimistic",
    '"in such a situation, the estimation process is always pessimistic, so that the application '
    "will "
    'always finish before the estimated finish time" (4.1)',
    "the bias of the prediction, and the share of jobs that end before it",
    f"the bias is above 0, and the share above {ALMOST_ALWAYS_PERCENT:g} %",
    ONE_IN_TWENTY,
)

FOUR_MS = Statement(
    "Predicting the turnaround of one application takes less than 4 ms",
    '"always lower than 4ms" (4.1), on a Pentium IV',
    "the time of a prediction per job, by policy",
    f"it is below {LIMIT_MS:g} ms under every policy",
    "none: the paper's own limit",
    FASTER,
)

TWO_ORDERS = Statement(
    "That is at least two orders of magnitude below the execution times",
    '"at least two orders of magnitude lower than the execution time of the parallel applications '
    '(minutes)" (4.1)',
    "the shortest execution time in isolation, and the time of a prediction",
    "the first is more than 100 times the second",
    "none: the paper's own limit",
    FASTER,
)

ALMOST_ALWAYS = Statement(
    "With backfilling, predictions are almost always pessimistic",
    '"the results are almost always pessimistic" (4.1)',
    "the share of jobs that end before the predicted time",
    f"more than {ALMOST_ALWAYS_PERCENT:g} % in every cell; {PARTLY}",
    ONE_IN_TWENTY,
)

NEVER = Statement(
    "In the worst case turnaround is over-estimated, and never under-estimated",
    '"in the worst case, is overestimated, but never underestimated" (4.1)',
    "with backfilling, the share of jobs that end after the predicted time",
    f"less than {NEVER_PERCENT:g} % in every cell; {PARTLY}",
    ONE_IN_TWENTY,
)

NORMAL_ON_ALL = Statement(
    "An exception is Normal with local load on all nodes",
    '"One of them was found for the Normal policy and 100% of nodes loaded with local tasks" (4.1; 28.33 % '
    "by "
    "CPU, 16.67 % by MPL, and the other way round on 25 %)",
    CPU_DEVIATES_MORE,
    "it is above 0 there, and below 0 on 25 % of the nodes: else it is no exception",
    "none: the signs in Table 1",
)

BASIC_ON_FEW = Statement(
    "Another exception is Basic with local load on 25 % of the nodes",
    '"The other case that it is not favorable to the CPU-CPU method is for the Basic policy [...] (local '
    "load "
    'of 25%)" (4.1; 23.00 % by CPU, 6.33 % by MPL, and the other way round on 100 %)',
    CPU_DEVIATES_MORE,
    "it is above 0 there, and below 0 on 100 % of the nodes: else it is no exception",
    "none: the signs in Table 1",
)

PROPORTIONAL_IS_BAD = Statement(
    "The proportional estimate of the remaining time performs badly",
    '"the Proportional (Prop., Eq. 1) RemainTime method performs badly" (4.1, Figure 3)',
    "the deviation by it, less that by each other method of the remaining time",
    f"it is above 0 for every policy and method of CPU time; {PARTLY}",
    NO_TOLERANCE,
)

BY_CPU_IS_BETTER = Statement(
    "CPU time estimated by CPU is more reliable than by MPL in most cases",
    '"the estimation via the CPU usage (right columns, Eq. 9) is more reliable in most of the cases" '
    "(4.1, Figure 3)",
    "the deviation by MPL, less that by CPU, by policy and method of the remaining time",
    "it is above 0 in 10 of the 15 cases",
    "of Table 1, the paper says most cases of 10 in 15",
)

BASIC_IS_DIFFERENT = Statement(
    "For Basic it is the other way round",
    '"There is a special case for the Basic policy, where these results are apparently '
    'contradictory" '
    "(4.1, Figure 3)",
    "under Basic, the deviation by CPU, less that by MPL, by method of the remaining time",
    "it is above 0 for some method",
    NO_TOLERANCE,
)

THE_TABLE = Statement(
    "The deviations are those of Table 1",
    "Table 1: 30 numbers",
    "the mean distance of the means of the 30 cells from the paper's, and that of two numbers: the medians "
    "of the paper's cells with and without backfilling",
    "the first is smaller",
    "what two numbers tell as well is no table that was reproduced",
)
