"""The papers' studies, repeated: each claim of a paper is compared with the results here."""

CASE_STUDIES = ("cs1", "cs2", "cs3", "cs4")
"""The case studies of Collins and George 2001."""

STUDIES = {
    **{name: f"collins_george.{name}:study" for name in CASE_STUDIES},
    "robustness": "collins_george.future_work:robustness",
    "preemption": "collins_george.future_work:preemption",
    "cisne-table1": "cisne.deviations:table_1",
    "cisne-fig3": "cisne.deviations:figure_3",
    "cisne-hybrid": "cisne.hybrid:study",
    "cisnep-dyn": "cisne.coscheduling:dynamic",
    "cisnep-user-space": "cisne.coscheduling:user_space",
    "cisnep-response": "cisne.coscheduling:response",
}
"""The function (seeds, runner) -> Findings of each study, by its name; that of a case study has a third
parameter, the number of perturbed sites."""

SEEDS = {"cisnep-user-space": 5}
"""Replications of studies that take long, where the user states no number."""

WITH_DATA = {"fgd": "fgd:study"}
"""The function (folder, runner) -> Findings of each study of which the data are not part of the project."""
