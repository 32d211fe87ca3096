"""Entries of journals as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import getmembers
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from scheduler.durability.journal import VERSION, WITH_FIELDS, BadEntry, JournalEntry, entry_of, text_of
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import DispatchOrder, Job, JobId, MachineReading, RunId
from scheduler.node_request import Gpus, Request
from scheduler.node_set import NodeSet
from scheduler.ports import (
    METHOD_OF,
    Clock,
    Monitor,
    NodeMonitor,
    RunEnded,
    RunLost,
    RuntimeEstimator,
    UnreliableDispatcher,
)
from scheduler.resource_manager import Characterisation, Experience
from scheduler.time_shared.social_contract import Requirement
from tests.examples import up_to

# -- what is read is what was written -----------------------------------------------------------------------

names = st.text(max_size=5)
floats = st.floats() | st.sampled_from([np.inf, -np.inf, np.nan, -0.0, 5e-324])
of_numpy = st.sampled_from(["<i8", "<f8", "<f4", "|b1", "<i4"]).flatmap(
    lambda kind: arrays_of.arrays(kind, arrays_of.array_shapes(min_dims=0, min_side=0, max_side=3))
)
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | floats
    | st.text()
    | of_numpy
    | of_numpy.map(lambda a: a.sum())
)
amounts = st.dictionaries(names, st.integers(0, 2**40), max_size=2)
gpus = st.builds(Gpus, st.just(1), st.floats(0.001, 1.0), st.frozensets(names))
requests = st.builds(
    Request,
    st.integers(1, 2**40),
    st.floats(0.001, 1e9),
    gpus=st.none() | gpus,
    others=amounts,
    most_on_node=st.none() | st.integers(1, 9),
    exclusive=st.booleans(),
    features=st.frozensets(names),
    site_resources=amounts,
)
matrices = arrays_of.arrays(
    float, arrays_of.array_shapes(min_dims=2, max_dims=2, max_side=4), elements=st.floats(0)
).map(EtcMatrix.from_dense)
checked = {
    Gpus: gpus,
    Request: requests,
    EtcMatrix: matrices,
    Requirement: st.builds(
        Requirement, st.integers(1), st.floats(0.01, 1), st.floats(0, 1e9), st.floats(0.1, 1e9)
    ),
}
"""Of classes that check what they are made of; the others take anything, as `values` does."""
node_sets = st.sets(st.integers(0, 40)).map(NodeSet.of)


def with_parts(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    made = [
        st.builds(kind, **dict.fromkeys(get_type_hints(kind), parts))
        for kind in WITH_FIELDS
        if kind not in checked
    ]
    containers = st.lists(parts, max_size=3), st.lists(parts, max_size=3).map(tuple)
    return st.one_of(*made, *containers, st.dictionaries(names | st.integers(), parts, max_size=3))


values = st.recursive(
    plain | node_sets | st.frozensets(names) | st.one_of(*checked.values()), with_parts, max_leaves=4
)


def exactly(value: Any) -> Any:
    """Equal for values that no program can tell apart: of the same classes, to the last bit."""
    kind = type(value)
    if isinstance(value, np.ndarray | np.generic):
        return kind, value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, tuple | list):
        return kind, [exactly(part) for part in value]
    if isinstance(value, dict):
        return kind, [(exactly(key), exactly(part)) for key, part in value.items()]
    if is_dataclass(kind):
        return kind, [exactly(getattr(value, field.name)) for field in fields(kind)]
    return kind, repr(value) if isinstance(value, float) else value


@settings(max_examples=up_to(300, 30))
@given(names, values)
def test_an_entry_that_is_read_is_the_one_that_was_written(name: str, value: object) -> None:
    entry = JournalEntry(name, (value,), (1.0, value), ((name, (value,)), (name, ())))
    text = text_of(entry)
    assert exactly(tuple(entry_of(text))) == exactly(tuple(entry))
    assert text.isascii()
    assert "\n" not in text
    json.loads(text, parse_constant=pytest.fail)


def test_sets_of_names_have_one_text() -> None:
    """Their order differs between processes, and between sets that have grown in different ways."""
    forth, back = (frozenset(map(str, numbers)) for numbers in (range(9), range(8, -1, -1)))
    assert text_of(JournalEntry("", (forth,), (), ())) == text_of(JournalEntry("", (back,), (), ()))


OF_VERSION_1 = (
    '{"version":1,"method":"on_job_arrived","arguments":[{"Job":{"id":7,"job_class":"a","arrival_s":1.5,'
    '"user":"ann","queue":"default","preferred":["x"],"size":null,"submitted_by":null,"n_tasks":1,'
    '"limit_s":null,"estimate_s":60.0,"request":{"Request":{"chunks":2,"cores":4.0,"memory_mib":100,'
    '"gpus":{"Gpus":{"count":1,"share":0.5,"types":{"set":["t4"]}}},"others":{"dict":[["fpga",1]]},'
    '"most_on_node":1,"exclusive":false,"features":{"set":[]},"partitions":{"set":["batch"]},'
    '"site_resources":{"dict":[]}}}}}],"reads":[{"float":"inf"},{"list":[{"MachineReading":{"machine":1,'
    '"up":true,"measured_s":2.0}}]},{"EtcMatrix":{"by_class_s":{"array":["<f8",[1,1],"AAAAAAAA+D8="]},'
    '"job_class_of":{"array":["<i8",[1],"AAAAAAAAAAA="]},"resource_class_of":{"array":["<i8",[1],'
    '"AAAAAAAAAAA="]},"resource_class_names":[]}}],"orders":[["dispatch",[{"DispatchOrder":{"run":1,'
    '"job":{"Job":{"id":7,"job_class":"a","arrival_s":1.5}},"resource":-1,"machines":{"NodeSet":"1-2 5"},'
    '"expected_s":60.0,"shares":[{"Share":{"node":1,"chunks":2,"gpus":[0]}}]}}]],["preempt",'
    '[{"scalar":["<i8",[],"AwAAAAAAAAA="]}]]]}'
)


def test_an_entry_of_version_1_is_read_also_if_classes_have_got_fields_since() -> None:
    """One job in it has no fields but the first three."""
    entry = entry_of(OF_VERSION_1)
    (job,) = entry.arguments
    request = Request(
        2, 4.0, 100, Gpus(1, 0.5, frozenset({"t4"})), {"fpga": 1}, partitions=frozenset({"batch"})
    )
    assert job == Job(JobId(7), "a", 1.5, "ann", preferred=("x",), estimate_s=60.0, request=request)
    assert entry.reads[:2] == (np.inf, [MachineReading(1, True, 2.0)])
    assert entry.reads[2].dense().tolist() == [[1.5]]
    order = entry.orders[0][1][0]
    assert order == DispatchOrder(
        RunId(1), Job(JobId(7), "a", 1.5), -1, NodeSet.of([1, 2, 5]), 60.0, ((1, 2, (0,)),)
    )
    assert entry.orders[1] == ("preempt", (3,))


# -- what a manager may read and order ----------------------------------------------------------------------


def classes_in(hint: Any) -> Iterator[type]:
    """The project's classes of a type hint, and of their fields."""
    for argument in get_args(hint):
        yield from classes_in(argument)
    if getattr(hint, "__module__", "").startswith("scheduler") and isinstance(hint, type):
        yield hint
        for inner in get_type_hints(hint).values():
            yield from classes_in(inner)


def test_all_classes_of_notices_readings_and_orders_have_a_text() -> None:
    ports = (
        Clock,
        Monitor,
        NodeMonitor,
        RuntimeEstimator,
        UnreliableDispatcher,
        Experience,
        Characterisation,
    )
    methods = [
        getattr(method, "fget", method)
        for owner in ports
        for name, method in getmembers(owner)
        if not name.startswith("_") and (callable(method) or isinstance(method, property))
    ]
    hints = [hint for method in methods for hint in get_type_hints(method).values()]
    for notice in METHOD_OF:  # the arguments of its method
        hints += [notice] if notice in (RunEnded, RunLost) else get_type_hints(notice).values()
    used = {kind for hint in hints for kind in classes_in(hint)}
    assert {Job, Request, EtcMatrix, Requirement, RunEnded, MachineReading} <= used
    assert used == set(WITH_FIELDS)


# -- what is refused -----------------------------------------------------------------------------------------


class Stranger:
    pass


class NearlyAJob(Job):
    pass


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Stranger(), "a value of the class tests.scheduler.durability.test_journal_text.Stranger"),
        (
            NearlyAJob(JobId(1), "a", 0.0),
            "a value of the class tests.scheduler.durability.test_journal_text.Near",
        ),
        (test_sets_of_names_have_one_text, "a value of the class builtins.function"),
        (np.array([Stranger()]), "an array of the type object"),
        (np.datetime64("2026-01-01"), "an array of the type datetime64"),
    ],
)
def test_values_of_other_classes_have_no_text(value: object, what: str) -> None:
    with pytest.raises(BadEntry, match=f"a journal cannot hold {what}"):
        text_of(JournalEntry("", (), (value,), ()))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "this is no entry of a journal"),
        ("[" * 10**6, "this is no entry of a journal"),
        ("[1]", "this is no entry of a journal"),
        ("{}", "this is no entry of a journal"),
        (b"\xff", "this is no entry of a journal"),
        ('{"version":9}', "the journal's entry is of version 9, and this program reads version 1"),
        ('{"version":1,"method":""}', "this is no entry of a journal"),
        ('{"version":1,"method":"","more":1}', "this is no entry of a journal"),
        ('{"version":1,"method":"","arguments":1,"reads":[],"orders":[]}', "its parts have the wrong types"),
    ],
)
def test_a_text_that_is_no_entry_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadEntry, match=sentence):
        entry_of(text)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("NaN", "this is no entry"),
        ('{"Stranger":{}}', "a value of the class 'Stranger', which this program does not know"),
        ('{"builtins.eval":["1"]}', "a value of the class 'builtins.eval', which this program does not know"),
        ('{"Job":{"id":1}}', "this is no entry"),
        ('{"Job":{"id":1,"job_class":"a","arrival_s":0.0,"colour":"red"}}', "this is no entry"),
        ('{"Job":3}', "this is no entry"),
        ('{"Loss":{},"Job":{}}', "this is no entry"),
        ("{}", "this is no entry"),
        ('{"float":"much"}', "this is no entry"),
        ('{"array":["<f8",[2],"AAAAAAAA8D8="]}', "this is no entry"),
        ('{"array":["O",[1],"AAAAAAAA8D8="]}', "this is no entry"),
        ('{"array":["<f8",[1],"AAAAA!AA8D8="]}', "this is no entry"),
        ('{"set":[{"list":[]}]}', "this is no entry"),
        ('{"dict":[1]}', "this is no entry"),
        ('{"NodeSet":"3-1"}', "this is no entry"),
        ('{"Gpus":{"share":{"float":"inf"}}}', "this is no entry"),
        ('{"Requirement":{"n_tasks":0,"cpu":1.0,"memory_mb":1.0,"exe_s":1.0}}', "this is no entry"),
    ],
)
def test_a_value_that_cannot_be_made_is_refused(value: str, sentence: str) -> None:
    text = f'{{"version":{VERSION},"method":"run_round","arguments":[],"reads":[{value}],"orders":[]}}'
    with pytest.raises(BadEntry, match=sentence) as caught:
        entry_of(text)
    assert "\n" not in str(caught.value)
