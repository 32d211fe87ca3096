"""Makespans of the classical HCSP instances, computed by independent code."""

from __future__ import annotations

import json

import pytest

from scheduler import registry
from scheduler.mapping.problem import MappingProblem
from sil.experiment.matrix import read_matrix
from tests.oracles import oracle

SCHEDULERS = ("olb", "met", "mct", "min_min", "max_min", "sufferage")


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize("instance", ["u_c_hihi", "u_s_hilo", "u_i_lolo"])
def test_the_makespan_equals_the_published_one_to_the_last_digit(instance: str, name: str) -> None:
    printed = json.loads(oracle("hcsp/makespans.json").read_text(), parse_float=str)[instance][name]
    etc_s = read_matrix(oracle(f"hcsp/{instance}.0.gz"))
    makespan_s = registry.resolve(name).make().schedule(MappingProblem.from_matrix(etc_s)).makespan_s
    digits = len(printed.partition(".")[2])
    assert f"{makespan_s:.{digits}f}" == printed
