"""Plans for a site: its machines and clusters, and its forecast workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sil.experiment.provenance import fingerprint
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import Plan
from sil.planning.scenario.capacity import Load, load
from sil.planning.scenario.option_runs import OptionRun
from sil.runs.resolve import scenario_of
from sil.runs.scenario import Scenario as RunScenario
from sil.site.site_in_use import SiteInUse, SiteSource
from site_db.store import Address


@dataclass(frozen=True)
class ChangedSite:
    """An option's site, ready for runs."""

    scenario: RunScenario
    mark: str

    @property
    def in_use(self) -> SiteInUse:
        return self.scenario.in_use


class OnSite:
    """A site with the changes of options; that of each option is made once.

    Raises InapplicableChange, DoesNotFit, InvalidFile and what SiteSource raises.
    """

    def __init__(self, plan: Plan, folder: Path, address: Address | None) -> None:
        self.plan = plan
        self._source = SiteSource(plan.experiment(()), folder, address)
        self._made: dict[str, ChangedSite] = {}

    @property
    def described(self) -> tuple[str, tuple[str, ...]]:
        """The name of the site as it is, and its resources that are down."""
        return self._source.name, self.of(AS_IT_IS).in_use.down

    def of(self, option: Option) -> ChangedSite:
        key = repr([change.model_dump_json() for change in option.changes])
        if key not in self._made:
            experiment = self.plan.experiment(option.changes)
            with TemporaryDirectory() as folder:
                source = self._source.with_changes(experiment)
                in_use = source.snapshot(Path(folder) / "site.db")
            scenario = scenario_of(experiment, in_use)
            self._made[key] = ChangedSite(scenario, fingerprint(scenario))
        return self._made[key]

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        site, plan = self.of(option), self.plan
        return OptionRun(
            site.scenario,
            site.mark,
            scheduler,
            replication,
            plan.goals,
            plan.warm_up_jobs,
        )

    def load(self, option: Option) -> Load | None:
        return load(self.plan.forecast, self.of(option).in_use)
