"""What Collins and George 2001 state in section 5.2, and by which rules that is judged."""

from __future__ import annotations

from sil.studies.ledger import NO_TOLERANCE, SLIGHT_PERCENT, Statement, calibrated, constructed, of_the_site

LIGHT, HEAVY = 30, 60
"""Numbers of jobs up to, and from, which the load is light, and heavy."""
ROUNDING = 1e-9
TIMES = calibrated(
    "the site's execution times were searched so that this is so (fixtures/sites/hcs-2001.toml)"
)


NEVER_WORSE = Statement(
    "PJS is in all cases at least equal to SJS",
    '"the performance of the PJS is in all cases at least equal to that of the SJS" (5.2)',
    "what PJS saves of the total of job times, for every number of jobs from 5 to 100",
    "the saving is nowhere below 0 %",
    f"{ROUNDING:g} points, for rounding",
    constructed(
        'PJS returns the schedule of SJS unless it found a better one; the paper says so itself: it "always '
        'produces a result that is superior or equal to the SJS algorithm" (3)'
    ),
)

BETTER_THAN_OLB = Statement(
    "SJS is far better than OLB",
    '"the sequential job scheduling algorithm has excellent performance when compared to OLB and other RMS '
    'scheduling algorithms" (6)',
    "what SJS saves of the total of job times under OLB, at multiples of five jobs",
    f"more than {SLIGHT_PERCENT:g} % at two thirds of them",
    "the paper calls less than 10 % slight, which is not excellent; other algorithms are not named",
    of_the_site(0, 20),
)

SMALL_SETS = Statement(
    "For small job sets, the heuristics are nearer to the optimum than for large ones",
    '"For small job sets, the algorithms generally come closer to optimality than for large job sets" (5.3)',
    "by how much the total of job times under SJS exceeds the least possible one of sequential execution, as "
    "a mean over the smaller half of the compared numbers of jobs, and over the larger one",
    "the first is smaller",
    f"{NO_TOLERANCE}; of PJS the optimum is not known",
)

NEARLY_HALF = Statement(
    "The total of job times is reduced by up to nearly 50 %",
    '"percentage savings of total job time that range up to nearly 50%" (5.2)',
    "the largest saving, where the number of jobs is a multiple of five, which gives an equal mix",
    "it is between 45 and 50 %",
    'the paper rounds to tens; "nearly" is from below',
    TIMES,
)

LIGHT_LOAD = Statement(
    "The improvement is concentrated in regions of light load",
    '"significant performance improvements under conditions of light load" (5.2); "concentrated in '
    'regions of light job load" (6)',
    f"the mean saving up to {LIGHT} jobs, and from {HEAVY} on",
    "the first is more than ten times the second",
    "the paper says that savings under heavy load cannot be seen in its chart: a tenth of the largest",
    TIMES,
)

PERIODICALLY = Statement(
    "Small improvements occur periodically under moderate and heavy load",
    '"small performance improvements that occur periodically under conditions of moderate and heavy '
    'load, although they are too small to be seen in this chart" (5.2)',
    f"savings at multiples of five above {LIGHT} jobs",
    "some number of jobs has a saving again after one that has none",
    NO_TOLERANCE,
)

TEN_THOUSAND = Statement(
    "With SJS, the total of job times is about 10,000 s at 50 jobs",
    "no words: the axes of Figure 5b end at 10,000 s and 50 jobs",
    "the total of job times of 50 jobs under SJS",
    "between 9,500 and 10,500 s",
    "the axis has steps of 2,000 s; a quarter of one is what can be read in a chart",
    TIMES,
)
