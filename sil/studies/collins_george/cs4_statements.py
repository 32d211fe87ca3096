"""What Collins and George 2001 state in section 5.4, and by which rules that is judged."""

from __future__ import annotations

from sil.studies.ledger import NO_TOLERANCE, SLIGHT_PERCENT, Statement

RATES = (1, 2, 4, 8, 16, 32)
LOW, HIGH = RATES[:2], RATES[-2:]
MIDDLE_PERCENT = 50.0
BY_CLASS = (
    "of each job time, the least one of its class is subtracted, which does not change the mean difference, "
    "and narrows its interval"
)

ORDER = Statement(
    "High-priority jobs are done sooner than medium ones, and these sooner than low ones",
    '"High-priority status for jobs significantly reduces their mean total job time for all of the '
    'priority level distributions"; medium ones have "performance that is significantly superior to '
    'that of low-priority jobs" (5.4, Figure 8)',
    f"the differences of mean job times between neighbouring priorities; {BY_CLASS}",
    "both are above 0 for every distribution and rate",
    NO_TOLERANCE,
)

RARITY = Statement(
    "The rarer high-priority jobs are, the sooner they are done",
    '"the degree to which the average job time for high-priority jobs is reduced is directly related '
    'to the rarity of such jobs" (5.4)',
    f"the mean times of high jobs, by distribution; {BY_CLASS}",
    "they grow from 10/10/80 to 25/25/50, and from there to 50/25/25, at every rate",
    NO_TOLERANCE,
)

CONTAINED = Statement(
    "10/10/80 contains the mean time of high-priority jobs to slightly over 100 s",
    '"able to contain the average job time for its high-priority jobs to slightly over 100 seconds" '
    "(5.4, Figure 8a)",
    "the largest mean time of high jobs over the rates",
    f"it is between 100 and {100 + SLIGHT_PERCENT:g} s",
    "elsewhere the paper calls less than 10 % slight",
)

FOUR_TIMES = Statement(
    "With 50/25/25 they take over four times as long at high rates",
    '"take on average over four times as long to complete under conditions of high arrival rate" (5.4)',
    "the mean time of high jobs at 32 jobs per quantum, relative to that with 10/10/80",
    "the ratio is above 4",
    NO_TOLERANCE,
)

GROWTH = Statement(
    "Job times generally increase with the rate of arrival",
    '"an increasing arrival rate generally increases the average job times" (5.4, Figure 8)',
    "by how much the overall mean grows from each rate to the next, by distribution",
    "it is above 0 in two thirds of the steps",
    '"generally" is most cases: two thirds; the falls between are the next claim',
)

NOT_MONOTONIC = Statement(
    "but not monotonically",
    '"the trends are not monotonic increasing" (5.4)',
    "the fall of the mean time of a priority from one rate to the next",
    "some fall is above 0",
    NO_TOLERANCE,
)

SLIGHT_COST = Statement(
    "Preemption with priority generally costs a little in overall performance",
    '"generally results in a slight degradation in overall performance relative to the no-priority '
    'case" (5.4, Figure 9a)',
    "by how much overall time exceeds that without priority, by distribution and rate",
    f"between 0 and {SLIGHT_PERCENT:g} % in two thirds of the cases",
    'elsewhere the paper calls less than 10 % slight; "generally" is most cases: two thirds',
)

LOW_RATES = Statement(
    "At low rates the penalty is largest for 10/10/80",
    '"For low arrival rates, the priority distributions that make more heavy use of the higher '
    'priorities do better in the aggregate" (5.4, Figure 9a)',
    "overall time with 10/10/80, less that with the others, at 1 and 2 jobs per quantum",
    "it is above 0",
    NO_TOLERANCE,
)

REVERSAL = Statement(
    "The trend reverses after 8 jobs per quantum: then 10/10/80 is best",
    '"the trend reverses after passing a mean arrival rate of 8 jobs per time quantum" (5.4)',
    "overall time with 10/10/80, less the mean of the others",
    "it is above 0 up to 8 jobs per quantum, and below at 16 and 32",
    "the rates of the paper are powers of two, so the reversal is between 8 and 16",
)

LESS_PARALLEL = Statement(
    "Parallelism decreases as the rate of arrival increases",
    '"In general, parallelism decreases as the arrival rate increases" (5.4, Figure 9b)',
    "the fall of the share of all jobs that run in parallel, from each rate to the next",
    "it is above 0 for every distribution",
    NO_TOLERANCE,
)

LEVELS_PARALLEL = Statement(
    "Parallelism drops with the priority of the job",
    '"the proportion [...] also decreases with a drop in the priority level of the job" (5.4)',
    "the share of high jobs that run in parallel, less that of low jobs",
    "it is above 0 for every distribution and rate",
    "none, though the paper names confounding factors: where its Table 1 shows them is illegible",
)

FASTER_FALL = Statement(
    "It falls faster with the rate for high-priority jobs where these are more frequent",
    '"falls faster with increasing job arrival rate for high-priority jobs in priority distributions '
    'with a higher percentage of such jobs" (5.4)',
    "how far the share of high jobs falls from 1 to 32 jobs per quantum",
    "further with 25/25/50 than with 10/10/80, and further still with 50/25/25",
    NO_TOLERANCE,
)

WELL_INTO = Statement(
    "At low rates, low-priority jobs are displaced well into their execution",
    '"when the jobs come in slowly, there is a strong tendency for low-priority jobs to be preempted well '
    'into their execution" (5.4)',
    "how much of its run time a displaced run had behind it, as a mean, at 1 and 2 jobs per quantum",
    f"more than {MIDDLE_PERCENT:g} % for every distribution",
    '"well into": past the middle',
)

MOST_WELL_INTO = Statement(
    "and furthest with 10/10/80 at low rates",
    '"This effect is strongest for the 10/10/80 distribution for low arrival rates" (5.4)',
    "that share with 10/10/80 at 1 and 2 jobs per quantum, less that with the others at the same rate, and "
    "less its own at 16 and 32",
    "it is above 0 in every case",
    NO_TOLERANCE,
)

ENDS_ON_CLUSTER = Statement(
    "A low-priority job that was often displaced usually ends up on a cluster",
    '"If a job is subjected to frequent preemption, as with low-priority jobs with small arrival rates for '
    'the 10/10/80 case, when it finally does get to execute, it will usually get a cluster" (5.4)',
    "of the low jobs of which at least two runs were displaced, the share that ended on a cluster, with "
    "10/10/80 at 1 and 2 jobs per quantum",
    "more than two thirds at both",
    '"usually" is in most cases: two thirds; once is not frequent',
)

ALIKE = Statement(
    "At low rates, high and medium jobs run in parallel about equally often",
    '"for low effective arrival rates, there is little difference between high- and medium-priority jobs in '
    'terms of proportion of parallelism" (5.4)',
    "the share of high jobs that run in parallel, less that of medium ones, at 1 and 2 jobs per quantum",
    f"it is within {SLIGHT_PERCENT:g} points for every distribution",
    "elsewhere the paper calls less than 10 % slight",
)

BEST_CLUSTERS = Statement(
    "but the best clusters usually go to the high ones",
    '"although the best clusters are usually allocated to the high-priority jobs" (5.4)',
    "the mean run time on clusters of medium jobs, less that of high ones, at 1 and 2 jobs per quantum",
    "it is above 0 in two thirds of the cases",
    '"usually" is in most cases: two thirds',
)
