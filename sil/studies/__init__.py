"""The papers' studies, repeated: each claim of a paper is held against what comes out here."""

CASE_STUDIES = ("cs1", "cs2", "cs3", "cs4")
"""Those of Collins and George 2001."""

MODULES = {
    **{name: f"collins_george.{name}" for name in (*CASE_STUDIES, "robustness", "preemption")},
    "cisne-table1": "cisne.table1",
    "cisne-fig3": "cisne.fig3",
    "cisne-hybrid": "cisne.hybrid",
    "cisnep-dyn": "cisne.dynamic_coscheduling",
    "cisnep-user-space": "cisne.user_space",
}
"""The module of each study by its name, with a function `study(seeds, runner)`."""
