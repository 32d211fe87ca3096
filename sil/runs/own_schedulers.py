"""Schedulers given as objects of Python: classes, instances, and factories. They have no import string, and
may be defined in a notebook or a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import cloudpickle

from scheduler import UserError
from scheduler.registry import from_source
from sil.runs.under_test import Find, InProcess, Isolation, UnderTest, resolve


@dataclass(frozen=True, eq=False)
class Factory:
    """Makes schedulers: a class or function, and the arguments with which it is called for each run.

    It can be pickled, whatever it consists of: classes of a notebook go along, others are imported by name.
    """

    constructor: Callable[..., Any]
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """As on the command line: `SmallestFirst(cap=8)`."""
        name = getattr(self.constructor, "__name__", type(self.constructor).__name__)
        if not self.parameters:
            return str(name)
        return f"{name}({', '.join(f'{key}={value}' for key, value in self.parameters.items())})"

    def __reduce__(self) -> tuple[Callable[[bytes], Factory], tuple[bytes]]:
        return _restored, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        """Once, so that what a class of a notebook counts during runs does not make it another one."""
        pickled: bytes = cloudpickle.dumps((self.constructor, dict(self.parameters)))
        return pickled


def factory(constructor: Callable[..., Any], /, **parameters: object) -> Factory:
    """Makes schedulers with these arguments: `factory(SmallestFirst, cap=8)`."""
    return Factory(constructor, parameters)


def _restored(pickled: bytes) -> Factory:
    return Factory(*cloudpickle.loads(pickled))


class Copies:
    """Makes copies of an instance in the state in which it is given, so that no run affects another."""

    def __init__(self, instance: object) -> None:
        try:
            self._instance = deepcopy(instance)
        except Exception as error:  # of any kind, since a class may define how it is copied
            raise UserError(
                f"an instance is copied for each run, and this one of {type(instance).__name__} cannot be "
                f"({type(error).__name__}: {error}); give its class, or a factory"
            ) from error
        self.__module__, self.__qualname__ = type(instance).__module__, type(instance).__qualname__
        self.__name__ = type(instance).__name__

    def __call__(self) -> object:
        return deepcopy(self._instance)


def factory_of(scheduler: object) -> Factory:
    """Raises UserError unless it is a class, an instance, or a function that makes one."""
    if isinstance(scheduler, Factory):
        return scheduler
    if not isinstance(scheduler, type) and callable(getattr(scheduler, "schedule", None)):
        return Factory(Copies(scheduler))
    if callable(scheduler):
        return Factory(scheduler)
    raise UserError(
        f"{scheduler!r} is no scheduler; expected a name, a class with a method schedule(problem), an "
        "instance, or a factory"
    )


def named(schedulers: object, isolated: bool, raises_faults: bool) -> dict[str, UnderTest]:
    """The schedulers of `by_name`. Raises UserError and SchedulerNotLoaded."""
    given = by_name(schedulers)
    return {name: among(given, isolated, raises_faults)(name) for name in given}


def by_name(schedulers: object) -> dict[str, str | Factory]:
    """One scheduler, several, or a mapping from names, by name: import strings or factories. By default, the
    name is that of the class, with its arguments. Raises UserError."""
    if isinstance(schedulers, Mapping):
        pairs = [(str(name), _maker(each)) for name, each in schedulers.items()]
    else:
        several = not isinstance(schedulers, str) and isinstance(schedulers, Iterable)
        given = map(_maker, cast("Iterable[object]", schedulers) if several else [schedulers])
        pairs = [(str(each), each) for each in given]
    if not pairs:
        raise UserError("there is no scheduler; give one or more")
    found: dict[str, str | Factory] = {}
    for name, each in pairs:
        if name in found:
            raise UserError(f"two schedulers are named {name}; name them in a dictionary")
        found[name] = each
    return found


def among(given: Mapping[str, str | Factory], isolated: bool, raises_faults: bool = False) -> Find:
    """Finds the schedulers that are `given` by name, and others as on the command line. See `InProcess`."""

    def found(name: str) -> UnderTest:
        scheduler = given.get(name, name)
        under_test: UnderTest
        if isinstance(scheduler, str):
            under_test = resolve(scheduler, isolated).named(name)
        else:
            isolation = Isolation() if isolated else None
            under_test = InProcess(name, from_source(name, scheduler), isolation)
        return replace(under_test, raises_faults=raises_faults)

    return found


def _maker(scheduler: object) -> str | Factory:
    return scheduler if isinstance(scheduler, str) else factory_of(scheduler)
