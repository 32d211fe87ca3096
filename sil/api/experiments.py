"""Experiments from Python."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from scheduler import UserError
from sil.api.calls import Isolating
from sil.declared import as_keyword, spread
from sil.runs.under_test import Factory, among, by_name
from sil.settings import experiment_file, files
from sil.settings.replays import AtSite

if TYPE_CHECKING:
    from sil.api.experiment_results import ExperimentResults
    from sil.experiment.run import SiteChoice
    from sil.runs.under_test import Find
    from sil.settings.foreign_code import Named
    from sil.workers.executor import Executor, Listener
    from site_db.store import Address


@dataclass(frozen=True)
class Experiment:
    """An experiment: a site, jobs, schedulers and replications, as in a file (`docs/reference/files.md`).

    It does not change; `with_` returns another one. `settings` are those of the file; relative paths in them
    start at the folder of `source`.
    """

    settings: experiment_file.Experiment
    source: Path
    _given: Mapping[str, str | Factory] = field(default_factory=dict)
    """The schedulers that are given as objects, or under other names, by name."""
    _trusted: frozenset[str] = frozenset()
    """Names of schedulers that are not those of the file, but given by the user."""

    @classmethod
    def builtin(cls, name: str) -> Experiment:
        """A built-in experiment (`sil experiments`). Raises UserError for an unknown name."""
        known = files.built_in("experiments")
        if name not in known:
            raise UserError(f"there is no built-in experiment {name!r}; expected one of {', '.join(known)}")
        return cls.read(known[name])

    @classmethod
    def read(cls, path: str | Path) -> Experiment:
        """The experiment in a TOML file, or a built-in one by its name. Raises UserError for a missing or
        invalid file."""
        found = files.find(str(path), "experiments", Path())
        return cls(experiment_file.read_experiment(found), found)

    def with_(
        self,
        *,
        schedulers: object = None,
        add: str | Sequence[str] = (),
        remove: str | Sequence[str] = (),
        upgrade: str | Sequence[str] = (),
        **settings: Any,
    ) -> Experiment:
        """A copy with other settings, named as in the file: `with_(replications=5, workload={"jobs": 200})`.

        Of a table, only the keys that are given change; mappings from names, like the grid, are replaced as a
        whole. None leaves a setting as it is. `schedulers` are as for `replay`. `add`, `remove` and `upgrade`
        are what-if changes of the site, like "8 x CLASS". Raises UserError for unknown or invalid
        settings."""
        given, trusted = self._given, self._trusted
        if schedulers is not None:
            found = by_name(schedulers)
            trusted |= found.keys()
            settings["schedulers"] = tuple(found)
            given = {name: each for name, each in found.items() if each != name}
        changed = experiment_file.changed(self.settings, **settings)
        for key in changed.grid:
            if "grid" not in settings and _has(settings, key.split(".")):
                raise UserError(f"{key} has the values of the grid; give grid={{}} to leave these out")
        notional = {
            verb: [texts] if isinstance(texts, str) else texts
            for verb, texts in (("add", add), ("remove", remove), ("upgrade", upgrade))
        }
        before, after = (
            {*of.schedulers, *(queue.scheduler for queue in of.queues if queue.scheduler)}
            for of in (self.settings, changed)
        )
        trusted |= after - before
        return Experiment(experiment_file.with_notional(changed, **notional), self.source, given, trusted)

    @spread(as_keyword)
    def run(
        self,
        schedulers: object = None,
        *,
        at: AtSite,
        folder: str | Path | None = None,
        call: Isolating,
        trust: bool = False,
    ) -> ExperimentResults:
        """Run the experiment, with the results of the command `sil run`.

        * `schedulers`: as for `replay`; by default those of the experiment. The first one is the baseline of
          differences.
        * `site`: a database with the site, like "site.db" or "site.db#NAME", instead of that of the file;
          with `learn`, completed runs are recorded there; with `as_of`, run times are estimated from its
          history up to this run.
        * `folder`: for the results; a call with the same experiment and folder resumes an interrupted one. By
          default they are kept until the object that is returned is no longer used.
        {call}
        * `trust`: modules and commands that the file or its site names may be run. Schedulers that are given
          in Python are trusted, as is what the user's list of trusted files has.

        For the other parameters see `replay`. Ctrl-C returns the replications that are done under all
        schedulers, with a warning. Raises UserError for invalid settings, and for schedulers that do not fit
        the experiment. Raises UserError if a file names code that is not trusted.
        """
        from sil.api.experiment_results import raise_faults
        from sil.experiment.run import SiteChoice
        from sil.settings.foreign_code import permit, refuse
        from site_db.store import parse_address

        experiment = self if schedulers is None else self.with_(schedulers=schedulers)
        address = None if at.site is None else parse_address(at.site)
        if not trust:
            permit(experiment.foreign_code(address), refuse("give trust=True"))
        choice = SiteChoice(address, at.learn, at.as_of)
        kept = None
        if folder is None:
            kept = TemporaryDirectory(prefix="sil-", ignore_cleanup_errors=True)
            folder = kept.name
        with call.listened(self.settings.name, "runs") as (listener, executor):
            isolated = call.is_elsewhere
            find = among(experiment._given, isolated, call.raises_faults and not isolated)
            found = _or_what_is_done(experiment, find, Path(folder), executor, choice, listener)
        found.kept = found.kept or kept
        if call.raises_faults:
            raise_faults(found)
        return found

    def foreign_code(self, address: Address | None) -> list[Named]:
        """What the file names, and its site or the one at `address`, that is to be run with the user's
        consent only."""
        from sil.settings.foreign_code import foreign_code

        return foreign_code(self.settings, self.source, address, self._trusted)

    def __repr__(self) -> str:
        of, schedulers = self.settings, ", ".join(self.settings.schedulers)
        return f"Experiment {of.name}: {of.replications} replications at {of.site} under {schedulers}"


def _has(settings: object, path: list[str]) -> bool:
    if not path:
        return settings is not None
    return isinstance(settings, dict) and path[0] in settings and _has(settings[path[0]], path[1:])


def _or_what_is_done(
    experiment: Experiment,
    find: Find,
    folder: Path,
    executor: Executor,
    choice: SiteChoice,
    listener: Listener,
) -> ExperimentResults:
    """The results of an experiment or, if Ctrl-C interrupts it, of the replications that are done. What is in
    the folder remains, so that it can be resumed."""
    from sil.api.calls import warn
    from sil.api.experiment_results import ExperimentResults
    from sil.experiment.output_folder import UNFINISHED
    from sil.experiment.run import DATABASE, Definition, run_experiment
    from sil.workers.executor import Interrupted

    try:
        definition = Definition(experiment.settings, experiment.source, find)
        run_experiment(definition, folder, executor, choice, listener)
    except Interrupted as interrupted:
        done = interrupted.finished
        if not isinstance(done, int) or done == 0:
            raise KeyboardInterrupt from None
        elsewhere = TemporaryDirectory(prefix="sil-", ignore_cleanup_errors=True)
        for name in (DATABASE, UNFINISHED):
            shutil.copy(folder / name, elsewhere.name)
        first = replace(definition, experiment=experiment.with_(replications=done).settings)
        run_experiment(first, Path(elsewhere.name), executor, replace(choice, learns=False), listener)
        warn(f"interrupted: {interrupted}; the results are those of the first {done} replications")
        return ExperimentResults(Path(elsewhere.name), elsewhere)
    return ExperimentResults(folder)
