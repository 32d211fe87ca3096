"""Purchasing questions from Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from sil.api.calls import Calling
from sil.api.charts import Chart
from sil.declared import as_keyword, spread
from sil.experiment.output_folder import make_usable
from sil.planning.answers import RUNS, AllAtFault, Answers, Prepared, Watch, answer_questions, fault_texts
from sil.planning.options import AS_IT_IS
from sil.planning.page import as_dict, classes_frame, options_frame, plan_page, write_page
from sil.planning.plan_file import Plan, read_plan
from sil.rehearsal.uses import Use, cited
from sil.report.origin import record_origin, sha256_sums
from sil.report.page import Notice
from sil.runs.nodes_scenario import NodesScenario
from sil.runs.under_test import Find, among, by_name, resolve
from sil.settings import files
from sil.settings.experiment_file import changed
from sil.settings.foreign_code import Ask, foreign_code, permit, refuse
from sil.workers.executor import Executor
from sil.workers.runner import OnProgress, Runner
from sil.workers.store import Store
from sil.world.guard.faults import SchedulerFault
from site_db.store import Address, parse_address


@spread(as_keyword)
def plan(
    plan: str | Path,
    *,
    schedulers: object = None,
    site: str | None = None,
    validation: str | Path | None = None,
    folder: str | Path | None = None,
    call: Calling,
    trust: bool = False,
    **settings: Any,
) -> PlanAnswers:
    """Answer a purchasing question, with the results of the command `sil plan`.

    * `plan`: a plan file, or the name of a built-in one ("five-offers", "gpu-nodes", "join-two-sites").
    * `schedulers`: as for `replay`; by default those of the file.
    * `site`: a database with the site, like "site.db" or "site.db#NAME", instead of that of the file.
    * `validation`: the folder of a `sil validate` at the site.
    * `folder`: where finished runs are stored, so that a call with the same folder resumes an interrupted
      plan and repeats no run.
    {call}
    * `trust`: modules and commands that the file or its site names may be run, as for `Experiment.run`.
    * `settings` replace those of the file: `budget=40_000`, `seed=2`, `confidence=0.9`.

    A fault is raised after all others are answered. Ctrl-C raises KeyboardInterrupt: answers rest on complete
    comparisons. Raises UserError for invalid settings (and for code that is not trusted), and SchedulerFault
    if no scheduler is left that has broken no rule.
    """
    given = None if schedulers is None else by_name(schedulers)
    settings["schedulers"] = None if given is None else tuple(given)
    asked = Asked.of(str(plan), site, settings, None if trust else refuse("give trust=True"))
    asked = replace(asked, validation=validation)
    if folder is not None:
        make_usable(Path(folder))
    find = among(given or {}, isolated=True)
    store = None if folder is None else Path(folder)
    with call.listened(asked.plan.name, "runs") as (listener, executor):
        try:
            found = asked.answered(store, executor, listener.progressed, lambda *look: None, find)
            faults = found.faults if call.raises_faults else {}
        except AllAtFault as none_left:
            faults = none_left.faults
    for scheduler, fault in faults.items():
        raise fault.named(scheduler) if isinstance(fault, SchedulerFault) else fault
    return PlanAnswers(found, asked.inputs)


@dataclass(frozen=True)
class Asked:
    """A plan with settings, and where its site is; `inputs` are the SHA-256 sums of its files, by name."""

    plan: Plan
    path: Path
    address: Address | None
    inputs: Mapping[str, str]
    validation: str | Path | None = None

    @classmethod
    def of(cls, name: str, site: str | None, settings: Mapping[str, Any], consent: Ask | None) -> Asked:
        """The plan in a file, or a built-in one, with the `settings` that are not None; code that it names
        needs `consent`, if that is asked for. Raises UserError."""
        path = files.find(name, "plans", Path())
        plan = changed(read_plan(path), **settings)
        address = None if site is None else parse_address(site)
        if consent is not None:
            permit(foreign_code(plan, path, address, settings.get("schedulers") or ()), consent)
        files_of = (path.parent / name for name in plan.files)
        return cls(plan, path, address, sha256_sums(path, *files_of))

    def answered(
        self,
        folder: Path | None,
        executor: Executor,
        on_progress: OnProgress,
        watch: Watch,
        find: Find = resolve,
    ) -> Answers:
        """Answer the plan; runs are stored in the `folder`. Raises UserError and AllAtFault."""
        prepared = Prepared(self.plan, self.path, self.address, find)
        with Store(None if folder is None else folder / RUNS) as store:
            found = answer_questions(prepared, Runner(executor, store, on_progress), watch)
        return replace(found, validated=self._validated(prepared, find))

    def _validated(self, prepared: Prepared, find: Find) -> Notice | None:
        """What a validation says of the site; None if there is none, and the jobs are not of its past."""
        scenario = None if prepared.site is None else prepared.site.scenario(AS_IT_IS)
        is_past = self.plan.history is not None or (self.plan.log is not None and scenario is not None)
        if not isinstance(scenario, NodesScenario) or not (is_past or self.validation):
            return None
        schedulers = [find(name) for name in self.plan.schedulers]
        return cited(self.validation, scenario.cluster, schedulers, [Use.PURCHASES])


class PlanAnswers:
    """The answers to a plan: `recommendation` in words, `answers` as a table."""

    def __init__(self, found: Answers, inputs: Mapping[str, str]) -> None:
        """`inputs` are the SHA-256 sums of the files that were asked, by name."""
        self._found = found
        self._inputs = inputs

    @property
    def recommendation(self) -> str:
        """What to buy, in a sentence or two."""
        return str(self._summary["recommendation"])

    @property
    def answers(self) -> pl.DataFrame:
        """A row for each scheduler, question and option, with the columns of options.csv
        (`docs/how-to/planning.md`): cost, gain over today and its simultaneous half-width, ranks."""
        return options_frame(self._found)

    @property
    def job_classes(self) -> pl.DataFrame:
        """The gain of each job class from each option, with the columns of job_classes.csv."""
        return classes_frame(self._found)

    @property
    def sizes(self) -> dict[str, dict[str, Any]]:
        """How many units of an offer reach the target, by scheduler, where the plan asks for it."""
        return dict(self._summary["sizes"])

    @property
    def faults(self) -> dict[str, str]:
        """How a scheduler broke a rule, by its name: it has no answers."""
        return dict(zip(self._found.faults, fault_texts(self._found.faults), strict=True))

    @property
    def notes(self) -> list[str]:
        """What to know before trusting the answers."""
        return list(self._summary["notes"])

    @property
    def assumptions(self) -> list[str]:
        """What the answers rest on."""
        return list(self._summary["assumptions"])

    @property
    def charts(self) -> dict[str, Chart]:
        """The charts of plan.html, by the names of their files."""
        charts = plan_page(self._found).charts()
        return {name: Chart(part.chart) for name, _, part in charts if part.chart is not None}

    def save(self, folder: str | Path) -> Path:
        """Write plan.html, the tables and the chart into a folder, as `sil plan` does. Raises UserError if it
        cannot be written."""
        folder = Path(folder)
        make_usable(folder)
        record_origin(folder, self._inputs)
        write_page(folder, self._found)
        return folder

    def __repr__(self) -> str:
        return f"Answers to {self._found.plan.name}: {self.recommendation}"

    def _repr_html_(self) -> str:
        return self.answers._repr_html_()

    @cached_property
    def _summary(self) -> dict[str, Any]:
        return as_dict(self._found)
