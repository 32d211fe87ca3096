"""What Collins and George 2001 state in section 5.1, and by which rules that is judged."""

from __future__ import annotations

from math import log

from sil.studies.ledger import SLIGHT_PERCENT, Statement, untestable

GROWTH = log(2) / log(100 / 5)
"""The least exponent by which a time at least doubles from 5 to 100 jobs or machines."""
MODEST_MS = 200.0
LIGHT_RATIO, EQUAL_RATIO = 1 + SLIGHT_PERCENT / 100, 1.25
JOB_S = 200.0
"""Mean time of a job in the paper: 10,000 s for 50 jobs in Figure 5b."""
THOUSAND_MS = 1e3 * JOB_S / 100
FASTER = untestable("seconds of a 200 MHz UltraSPARC say nothing of those of this computer")


GROWS = Statement(
    "The overhead of SJS grows with both the number of jobs and the number of machines",
    '"the overhead grows with both the number of machines and the number of jobs" (5.1, Figure 3)',
    "the exponents of c n^a m^b, fitted to each random table",
    f"both are above {GROWTH:.2f}",
    "with less, the time does not even double from 5 to 100: no growth that a chart shows",
)

AS_NM = Statement(
    "Up to 100 jobs and machines it grows rather as n m than as n^2 m",
    '"a relationship more akin to O(nm), which is consistent with the explanation that the process '
    "of "
    'memory management [...] is the dominant factor" (5.1)',
    "the same exponents",
    "a is nearer to 1 than to 2, b nearer to 1 than to 0",
    '"more akin": the middle decides',
)

MODEST = Statement(
    "The overhead of SJS is modest: below 0.2 s for 100 jobs on 100 machines",
    '"a scheduling overhead of less than 0.2 seconds for a schedule involving 100 jobs and 100 '
    'machines" '
    "(6), on a 200 MHz UltraSPARC",
    "the longest decision",
    f"it takes less than {MODEST_MS:g} ms",
    "none: the paper's own limit",
    FASTER,
)

THOUSAND_JOBS = Statement(
    "Decisions on 1,000 jobs are modest, too",
    '"the amounts of time required to compute a schedule, even in cases where a very large number of '
    'jobs are considered simultaneously, are modest by the standards of batch jobs" (5.1)',
    "the longest decision of PJS on 1,000 jobs",
    f"it takes less than {THOUSAND_MS / 1e3:g} s",
    f"a hundredth of a job, of which the mean time in Figure 5b is {JOB_S:g} s",
    FASTER,
)

TWO_TO_THREE = Statement(
    "PJS takes two to three times as long as SJS",
    '"typically takes from two to three times longer to execute than does the SJS (i.e., the 0% '
    "possibly "
    'parallel case)" (5.1, Figure 4)',
    "the ratio of decision times, averaged over numbers of jobs, to that at 0 %",
    "it is between 2 and 3 for every share",
    'none: the paper\'s own range; "times longer" can also be read as 3 to 4 times as long',
)

SHARE_HAS_NO_EFFECT = Statement(
    "The share of possibly parallel jobs has no significant effect on the overhead of PJS",
    '"appears to have no significant overall effect on the amount of time needed to compute a '
    'schedule" '
    "(5.1)",
    "how many times that ratio is at one share what it is at another",
    f"less than {LIGHT_RATIO:g} for all pairs of shares; it does not hold if some pair has more than "
    f"{EQUAL_RATIO:g}",
    "no sentence gives a limit: elsewhere the paper calls less than 10 % slight; from the end to the middle "
    "of its range of two to three times is 25 %",
)

ONE_SCHEDULE_PER_JOB = Statement(
    "Each parallel job in the final schedule adds roughly the time of one sequential schedule",
    '"we expect the execution time to increase by roughly the amount of time needed for a sequential '
    'schedule for every parallel job that is fit into the final schedule" (5.1)',
    "by how much the ratio to SJS grows with each job that ran in parallel",
    "by 0.5 to 1.5",
    '"roughly": nearer to one schedule than to none or to two',
)
