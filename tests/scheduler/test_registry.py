"""Schedulers by name, with their parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import partial

import pytest

from scheduler import registry
from scheduler.registry import Kind, SchedulerNotLoaded
from scheduler.time_shared.policies import NodeSelection, Selection
from scheduler.time_shared.scheduler import Loras


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
def test_parameters_behind_a_name_go_to_the_constructor(
    parameters: str, given: tuple[float, int | None, bool]
) -> None:
    made = registry.load(OWN + parameters)()
    assert isinstance(made, WithParameters)
    assert made.given == given
    assert registry.target_of(OWN + parameters) == OWN


@pytest.mark.parametrize(
    ("parameters", "told"),
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
def test_parameters_that_do_not_fit_are_refused(parameters: str, told: str) -> None:
    with pytest.raises(SchedulerNotLoaded) as refused:
        registry.load(OWN + parameters)
    assert told in str(refused.value)


def test_a_choice_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        SchedulerNotLoaded, match="'best' is no job selection; there are just_first, first_fit"
    ):
        registry.load("loras(selection=best)")


def test_a_composition_has_its_parameters_and_takes_others_beside() -> None:
    made = registry.load("uniform_easy(most_jobs=2)")()
    assert isinstance(made, Loras)
    assert (made.selection, made.node_selection, made.most_jobs) == (Selection.EASY, NodeSelection.UNIFORM, 2)


@pytest.mark.parametrize("name", [*registry.ON_SHARED_NODES, *registry.ON_FREE_NODES])
def test_every_built_in_scheduler_for_nodes_loads(name: str) -> None:
    assert registry.is_built_in(name)
    assert registry.target_of(name).startswith("scheduler.")
    assert callable(registry.load(name)().schedule)


def test_it_is_known_of_a_built_in_scheduler_only_what_it_decides_about() -> None:
    assert registry.kind_of("sjs") is Kind.MAPPING
    assert registry.kind_of("loras(selection=easy)") is Kind.SHARED_NODES
    assert registry.kind_of("easy_sjbf") is Kind.FREE_NODES
    assert registry.kind_of(OWN) is None


def test_a_scheduler_of_another_kind_than_is_needed_is_told_and_those_that_fit_are_named() -> None:
    assert registry.misfit("sjs", Kind.MAPPING) is None
    assert registry.misfit(OWN, Kind.FREE_NODES) is None
    sentence = registry.misfit("sjs", Kind.FREE_NODES)
    assert sentence is not None
    assert sentence.startswith("scheduler 'sjs' maps jobs to machines; needed is one that gives rigid jobs")
    assert "easy_sjbf" in sentence


def test_the_listing_says_of_each_what_its_class_says_first() -> None:
    for entry in registry.entries():
        factory = registry.load(entry.name)
        documented = inspect.getdoc(factory.func if isinstance(factory, partial) else factory)
        assert documented is not None
        assert entry.summary == documented.splitlines()[0]


def test_the_listing_loads_nothing_that_is_compiled() -> None:
    look = "import sys; from scheduler import registry; registry.entries(); print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=True, capture_output=True).stdout == b"False\n"
