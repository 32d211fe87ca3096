from __future__ import annotations

import pytest

from site_db.jobs.requests import features_of

CASES = {
    "new": {"new"},
    "new&ib": {"new", "ib"},
    "(new)&(ib)": {"new", "ib"},
    "intel|amd": {"intel|amd"},
    "(intel|amd)&ib": {"intel|amd", "ib"},
    "ib&(intel|amd)": {"intel|amd", "ib"},
    "(intel|amd)": {"intel|amd"},
    " new & ib ": {"new", "ib"},
    "gpu:a100": {"gpu:a100"},
    "new*2": {"new"},
    "new*2&ib": {"new", "ib"},
    "new*1": None,
    "[rack1|rack2]": None,
    "[rack1*1&rack2*1]": None,
    "(rack1&ib)|rack2": None,
    "ib&intel|amd": None,
    "a,b": None,
    "a&": None,
    "(a": None,
    "|": None,
}


@pytest.mark.parametrize("constraint", CASES)
def test_constraints_that_each_node_meets_alone_are_features_and_others_are_none(constraint: str) -> None:
    """Of a job on two nodes."""
    assert features_of(constraint, 2) == CASES[constraint]


def test_one_node_has_the_same_feature_on_all_its_nodes() -> None:
    assert features_of("[rack1|rack2]", 1) == {"rack1|rack2"}
    assert features_of("new*1", 1) == {"new"}
