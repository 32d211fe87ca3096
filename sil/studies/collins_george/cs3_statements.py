"""What Collins and George 2001 state in section 5.3, and by which rules that is judged."""

from __future__ import annotations

from sil.studies.ledger import NO_TOLERANCE, SLIGHT_PERCENT, Statement, calibrated, of_the_site

CONVERGED_PERCENT = 5.0
"""Two totals converge if they differ by less."""
ROUNDING = 1e-9
OF_CASE_STUDY_2 = calibrated(
    "high jobs meet an empty site, as all jobs of case study 2 do: their curve is that one, for the shape of "
    "which the execution times were searched"
)


SUPERIOR = Statement(
    "PJS is superior to SJS for high-priority jobs",
    '"the PJS obtains performance superior to the SJS for high-priority jobs" (5.3, Figures 6a, 6d, 6g)',
    "the change from SJS to PJS of the total of high job times, by number of jobs and distribution",
    "its mean is below 0 % for every distribution, and it is nowhere above",
    f"{ROUNDING:g} points, for rounding; equal times at some numbers of jobs are no contradiction",
    OF_CASE_STUDY_2,
)

RARITY = Statement(
    "How far PJS can favour high-priority jobs is directly related to their rarity",
    '"The extent to which it can do so is directly related to the rarity of high-priority jobs" (5.3)',
    "the mean change of high job times, by distribution",
    "it is largest for 10/10/80, then 25/25/50, then 50/25/25",
    NO_TOLERANCE,
    OF_CASE_STUDY_2,
)

CONVERGENCE = Statement(
    "The high-priority trends of PJS and SJS converge after about 30 high-priority jobs",
    '"The convergence happens after approximately 30 high-priority jobs have been scheduled" (5.3)',
    f"from how many high jobs on the totals differ by less than {CONVERGED_PERCENT:g} % (10/10/80)",
    "from 25 to 35 on",
    "the paper rounds to tens",
    OF_CASE_STUDY_2,
)

RISE_AND_FALL = Statement(
    "Medium-priority times rise sharply as the high-priority trends converge, and then fall sharply",
    '"a sharp rise in job time occurs in the medium-priority chart just as the high-priority trends '
    '[...] are converging", then a "sharp fall in their total job times" (5.3, Figure 6b)',
    "the excess of medium job times over SJS (10/10/80): where it is largest, how far it falls then",
    "it is largest within 5 jobs of the convergence, above 10 %, and falls to half of that or less",
    "the paper rounds the convergence to tens, and calls less than 10 % slight; half is what is sharp",
    of_the_site(3, 20),
)

EARLIER = Statement(
    "The same happens earlier where high-priority jobs outnumber the medium ones",
    '"The same behavior is evidenced in Figures 6(e) and 6(h), but it occurs earlier in the latter" (5.3)',
    "the number of medium jobs at which that excess is largest",
    "fewer for 50/25/25 than for 25/25/50",
    NO_TOLERANCE,
    of_the_site(14, 20),
)

INFERIOR = Statement(
    "For low-priority jobs PJS is marginally inferior with 10/10/80 and 25/25/50",
    '"In Figures 6(c) and 6(f), the PJS realizes overall performance marginally inferior to that of '
    'the SJS" (5.3)',
    "the mean change of the total of low job times",
    f"between 0 and {SLIGHT_PERCENT:g} % for both",
    "the paper calls a degradation of somewhat less than 10 % slight",
    of_the_site(12, 20),
)

COMPARABLE = Statement(
    "For low-priority jobs PJS is comparable to SJS with 50/25/25",
    '"the performance of the PJS is comparable to the SJS under the 50/25/25 priority distribution" '
    "(5.3, Figure 6i)",
    "the mean change of the total of low job times",
    f"within {CONVERGED_PERCENT:g} %, and smaller than for the other two, which are inferior",
    "half of what the paper calls slight",
    of_the_site(1, 20),
)

COST = Statement(
    "In total, priority costs something, generally less than 10 %",
    '"the priority scheduling systems generally, but not always, have an aggregate performance '
    'degradation that is somewhat less than 10%" (5.3, Figure 7)',
    "how much longer the total of job times is than without priority, by distribution and scheduler",
    f"between 0 and {SLIGHT_PERCENT:g} % in two thirds of the six cases",
    '"generally, but not always" is most cases: two thirds',
    of_the_site(12, 20),
)

NO_DIFFERENCE = Statement(
    "In total, there is no significant difference between PJS and SJS",
    '"there does not appear to be a significant difference between the PJS and the SJS in terms of '
    'aggregate overall performance" (5.3, Figure 7)',
    "the difference of the mean totals, by distribution",
    f"less than {CONVERGED_PERCENT:g} % for every distribution",
    "half of what the paper calls slight, which it does report as a difference",
    of_the_site(2, 20),
)

EVEN_TRADE = Statement(
    "What PJS saves high-priority jobs, it costs the others",
    '"the PJS improves the performance of higher-priority jobs relative to the SJS by approximately the same '
    'amount as it worsens the performance of the lower-priority jobs" (5.3)',
    "the total of medium and low job times under PJS, less that under SJS, over all numbers of jobs, "
    "relative to the total by which those of high jobs are shorter, by distribution",
    "between 0.5 and 1.5 for each",
    '"approximately": nearer to the same amount than to none or to double',
)
