"""Schedulers by name, with their parameters."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest

from scheduler import registry
from scheduler.registry import SchedulerNotLoaded, resolve
from scheduler.rules import Kind
from scheduler.time_shared.loras import JobChoice, Loras, NodeChoice
from sil.cli.schedulers import entries


class WithParameters:
    """A scheduler of some user's."""

    def __init__(self, alpha: float = 0.5, depth: int | None = None, greedy: bool = False) -> None:
        self.given = (alpha, depth, greedy)

    def schedule(self, problem: object) -> None:
        """It decides nothing."""


OWN = f"{__name__}:WithParameters"


@pytest.mark.parametrize(
    ("parameters", "given"),
    [
        ("", (0.5, None, False)),
        ("()", (0.5, None, False)),
        ("(alpha=2)", (2, None, False)),
        ("( alpha = -0.25, depth=3 )", (-0.25, 3, False)),
        ("(greedy=true)", (0.5, None, True)),
    ],
)
def test_parameters_in_the_name_are_passed_to_the_constructor(
    parameters: str, given: tuple[float, int | None, bool]
) -> None:
    spec = resolve(OWN + parameters)
    made = spec.make()
    assert isinstance(made, WithParameters)
    assert made.given == given
    assert spec.target == OWN


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("(alhpa=1)", "there is no parameter 'alhpa'; did you mean 'alpha'?"),
        ("(alpha=much)", "'alpha' is 'much'; expected a number"),
        ("(depth=1.5)", "'depth' is 1.5; expected a whole number"),
        ("(greedy=1)", "'greedy' is 1; expected true or false"),
        ("(0.5)", "parameters are given as"),
        ("(alpha=1", "parameters are given as"),
        ("(alpha=1)(depth=2)", "parameters are given as"),
        ("(alpha=1).x(depth=2)", "parameters are given as"),
        ("(alpha=1, alpha=2)", "parameters are given as"),
        ("(alpha={[]: 1})", "is neither a number"),
        ("(alpha=[1])", "the value of 'alpha' is neither a number, nor a word, nor true or false"),
        ("(alpha=__import__('os'))", "is neither a number"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: str, message: str) -> None:
    with pytest.raises(SchedulerNotLoaded) as refused:
        resolve(OWN + parameters)
    assert message in str(refused.value)


def test_an_unknown_choice_is_rejected_with_the_valid_ones() -> None:
    with pytest.raises(
        SchedulerNotLoaded, match="'best' is no job selection; there are just_first, first_fit"
    ):
        resolve("loras(selection=best)")


def test_an_unknown_choice_is_named_without_docstrings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobChoice, "__doc__", None)  # as under python -OO
    with pytest.raises(SchedulerNotLoaded, match="'best' is no job selection"):
        resolve("loras(selection=best)")


def test_a_named_composition_accepts_additional_parameters() -> None:
    made = resolve("uniform_easy(most_jobs=2)").make()
    assert isinstance(made, Loras)
    assert (made.selection, made.node_selection, made.most_jobs) == (JobChoice.EASY, NodeChoice.UNIFORM, 2)


@pytest.mark.parametrize("name", [*registry.ON_SHARED_NODES, *registry.ON_FREE_NODES])
def test_every_built_in_node_scheduler_loads(name: str) -> None:
    spec = resolve(name)
    assert spec.is_built_in
    assert spec.target.startswith("scheduler.")
    assert spec.memoryless is getattr(spec.make(), "memoryless", False)


class Declares:
    """Declares what it decides, and draws random numbers."""

    kind = "time_shared"
    memoryless = True
    is_random = True

    def __init__(self, seed: int, bias: float = 0.0) -> None:
        self.given = (seed, bias)

    def schedule(self, problem: object) -> None:
        """It decides nothing."""


class WrongKind(Declares):
    kind = "free"


class WrongFlag(Declares):
    memoryless = "yes"  # type: ignore[assignment]


class TakesNoSeed(WithParameters):
    is_random = True


def test_a_spec_has_the_built_in_or_declared_kind() -> None:
    assert resolve("sjs").kind is Kind.MAPPING
    assert resolve("loras(selection=easy)").kind is Kind.TIME_SHARED
    assert resolve("easy_sjbf").kind is Kind.FREE_NODES
    assert resolve(OWN).kind is None
    declared = resolve(f"{__name__}:Declares")
    assert (declared.kind, declared.memoryless, declared.is_random) == (Kind.TIME_SHARED, True, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mapping", Kind.MAPPING),
        ("free_nodes", Kind.FREE_NODES),
        ("free-nodes", Kind.FREE_NODES),
        ("shared_nodes", Kind.TIME_SHARED),
        ("time-shared", Kind.TIME_SHARED),
        (Kind.MAPPING, Kind.MAPPING),
    ],
)
def test_kinds_accept_hyphens_and_underscores(name: str, kind: Kind) -> None:
    assert Kind(name) is kind


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("WrongKind", "declares kind = 'free'; expected one of mapping, shared-nodes, free-nodes"),
        ("WrongFlag", "declares memoryless = 'yes'; expected True or False"),
        ("TakesNoSeed", "declares is_random = True; its constructor needs a parameter 'seed'"),
    ],
)
def test_invalid_declarations_are_rejected(name: str, message: str) -> None:
    with pytest.raises(SchedulerNotLoaded) as refused:
        resolve(f"{__name__}:{name}")
    assert message in str(refused.value)


def test_a_random_scheduler_gets_the_seed_unless_its_name_has_one() -> None:
    def given(name: str) -> object:
        made = resolve(name).make(seed=7)
        assert isinstance(made, Declares)
        return made.given

    assert given(f"{__name__}:Declares") == (7, 0.0)
    assert given(f"{__name__}:Declares(bias=1)") == (7, 1)
    assert given(f"{__name__}:Declares(seed=3)") == (3, 0.0)


def test_a_spec_can_be_pickled() -> None:
    spec = resolve("uniform_easy(most_jobs=2)")
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_aliases_of_a_scheduler_have_the_same_key() -> None:
    assert resolve("easy").key == resolve("rigid(backfilling=easy)").key
    assert resolve("easy").key != resolve("fcfs").key


def test_a_scheduler_of_another_kind_is_rejected_with_the_suitable_ones() -> None:
    resolve("sjs").require(Kind.MAPPING, "this experiment")
    resolve(OWN).require(Kind.FREE_NODES, "replaying a log")
    with pytest.raises(SchedulerNotLoaded) as refused:
        resolve("sjs").require(Kind.FREE_NODES, "replaying a log")
    assert str(refused.value).startswith(
        "scheduler 'sjs' maps jobs to machines (kind mapping), but replaying a log needs one that starts "
        "jobs on free nodes (kind free-nodes): fcfs, "
    )


def test_resolving_and_listing_built_in_schedulers_import_no_compiled_module() -> None:
    look = (
        "import sys; from scheduler.registry import resolve; from sil.cli.schedulers import entries; "
        "resolve('easy'); entries(resolve); print('scheduler.core.queue' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", look], check=True, capture_output=True).stdout == b"False\n"


def test_a_listing_shows_the_first_line_of_each_docstring() -> None:
    for entry in entries(resolve):
        documented = inspect.getdoc(type(resolve(entry.name).make()))
        assert documented is not None
        assert entry.summary == documented.splitlines()[0]
