"""What-if changes of sites of nodes: what nodes have, and the partitions in which they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.node_request import Node
from sil.planning.options import AS_IT_IS, Option
from sil.settings.notional import NotionalTable
from sil.site.what_if_site import InapplicableChange
from site_db.site_file.nodes import cluster_of
from tests.builders import TINY_SITE
from tests.sil.planning.nodes_site import SITE, accounting, on_site, plan
from tests.sil.site.test_notional import imagined


def nodes(folder: Path, *changes: dict[str, Any], site: str = SITE) -> Mapping[str, Node]:
    """The nodes of the site after these changes, by name."""
    option = Option("changed", tuple(NotionalTable.model_validate(change) for change in changes))
    return cluster_of(on_site(folder, plan(), site).in_use(option).file).nodes


def test_nodes_of_a_known_class_have_what_its_machines_have_and_are_where_these_are(tmp_path: Path) -> None:
    found = nodes(tmp_path, {"add": "2 x gpu-node"})
    assert found["new-gpu-node-1"] == found["new-gpu-node-2"] == found["g1"]
    assert found["g1"].partitions == {"gpu", "all"}


def test_new_nodes_are_on_the_switch_of_the_last_machine_of_their_class(tmp_path: Path) -> None:
    topology = 'topology = { leaves = ["a", "b"], above = [[1, [0, 1]]] }\n[[machines]]\n'
    site = SITE.replace("[[machines]]\n", topology, 1)
    for names, switch in (("c[1-4]", "a"), ("g[1-2]", "b")):
        site = site.replace(f'names = ["{names}"]', f'names = ["{names}"]\nswitch = "{switch}"', 1)
    new = {"add": "1 x h100-node", "processors": 2, "memory_mb": 1_000, "partitions": ["all"]}
    found = nodes(tmp_path, {"add": "1 x cpu-node"}, new, site=site)
    assert (found["new-cpu-node-1"].switch, found["new-h100-node-1"].switch) == ("a", "a")


@pytest.mark.parametrize("name", ["g1", "g"])
def test_a_class_may_be_named_by_one_of_its_nodes_or_by_what_their_names_begin_with(
    name: str, tmp_path: Path
) -> None:
    found = nodes(tmp_path, {"add": f"2 x {name}"}, {"upgrade": f"1 x c to {name}"})
    assert sum(node.gpus == found["g1"].gpus for node in found.values()) == 5
    assert len(nodes(tmp_path, {"remove": "2 x c1"})) == len(nodes(tmp_path)) - 2
    assert nodes(tmp_path, {"change": "c", "memory_mb": 5_000})["c1"].memory_mib == 5_000


def test_a_name_of_nodes_is_that_of_a_new_class_if_the_change_says_what_its_nodes_have(
    tmp_path: Path,
) -> None:
    new = {"add": "1 x c", "processors": 2, "memory_mb": 1_000, "partitions": ["all"]}
    assert nodes(tmp_path, new)["new-c-1"].cores == 2


def test_a_partition_that_has_no_nodes_forbids_no_change(tmp_path: Path) -> None:
    empty = SITE.replace(
        "[[site_resources]]", '[[partitions]]\nname = "soon"\nnodes = []\n\n[[site_resources]]'
    )
    assert "new-gpu-node-1" in nodes(tmp_path, {"add": "1 x gpu-node"}, site=empty)


def test_nodes_of_a_new_class_have_what_is_said_of_them(tmp_path: Path) -> None:
    new = {
        "add": "1 x h100-node",
        "processors": 96,
        "threads_per_core": 2,
        "memory_mb": 512_000,
        "gpus": {"h100": 4},
        "resources": {"fpga": 1},
        "features": ["nvlink"],
        "partitions": ["gpu"],
    }
    assert nodes(tmp_path, new)["new-h100-node-1"] == Node(
        96, 512_000, ("h100",) * 4, {"fpga": 1}, frozenset({"nvlink"}), frozenset({"gpu"})
    )


def test_a_partition_may_be_given_for_nodes_of_a_known_class(tmp_path: Path) -> None:
    assert nodes(tmp_path, {"add": "1 x cpu-node", "partitions": ["all"]})["new-cpu-node-1"].partitions == {
        "all"
    }


OVERLAPPING = SITE.replace(
    "[[site_resources]]", '[[partitions]]\nname = "large"\nnodes = ["c[3-4]"]\n\n[[site_resources]]'
)


def test_partitions_are_asked_for_where_those_of_the_machines_of_the_class_differ(tmp_path: Path) -> None:
    with pytest.raises(InapplicableChange) as error:
        nodes(tmp_path, {"add": "2 x cpu-node"}, site=OVERLAPPING)
    assert (
        "the machines of class 'cpu-node' are in different partitions (2 in cpu and all; 2 in cpu and all "
        'and large); give the partitions of the new nodes, as partitions = ["cpu", "all", "large"]'
    ) in str(error.value)
    said = nodes(tmp_path, {"add": "2 x cpu-node", "partitions": ["cpu", "large"]}, site=OVERLAPPING)
    assert said["new-cpu-node-2"].partitions == {"cpu", "large"}


def test_nodes_of_a_known_class_are_where_its_present_machines_are_whatever_was_added_before(
    tmp_path: Path,
) -> None:
    found = nodes(tmp_path, {"add": "1 x gpu-node", "partitions": ["all"]}, {"add": "1 x gpu-node"})
    assert found["new-gpu-node-1"].partitions == {"all"}
    assert found["new-gpu-node-2"].partitions == {"gpu", "all"}


def test_a_second_unit_of_an_offer_of_new_nodes_adds_as_many(tmp_path: Path) -> None:
    new = {"add": "2 x big", "processors": 4, "memory_mb": 8_000, "partitions": ["cpu"]}
    assert sum(name.startswith("new-big") for name in nodes(tmp_path, new, new)) == 4


def test_all_nodes_of_a_class_may_get_more_memory_cores_and_gpus(tmp_path: Path) -> None:
    found = nodes(
        tmp_path,
        {"change": "cpu-node", "more_memory_mb": 256_000, "processors": 16},
        {"change": "gpu-node", "memory_mb": 128_000, "gpus": {"a100": 4}},
    )
    assert (found["c3"].memory_mib, found["c3"].cores) == (288_000, 16)
    assert (found["g2"].memory_mib, found["g2"].gpus) == (128_000, ("a100",) * 4)
    assert found["c3"].partitions == {"cpu", "all"}


def test_removed_nodes_leave_their_partitions(tmp_path: Path) -> None:
    option = Option("fewer", (NotionalTable(remove="2 x cpu-node"),))
    file = on_site(tmp_path, plan()).in_use(option).file
    assert {table.name: table.nodes for table in file.partitions} == {
        "cpu": ("c1", "c2"),
        "gpu": ("g1", "g2"),
        "all": ("c1", "c2", "g1", "g2"),
    }


def test_nodes_may_be_replaced_in_one_offer(tmp_path: Path) -> None:
    found = nodes(
        tmp_path,
        {"remove": "2 x gpu-node"},
        {"add": "1 x h100-node", "processors": 8, "memory_mb": 1, "gpus": {"h100": 1}, "partitions": ["gpu"]},
    )
    assert [name for name, node in found.items() if "gpu" in node.partitions] == ["new-h100-node-1"]


def test_upgraded_nodes_have_what_their_new_class_has_and_stay_where_they_are(tmp_path: Path) -> None:
    found = nodes(tmp_path, {"upgrade": "1 x cpu-node to gpu-node"})
    assert (found["c4"].gpus, found["c4"].memory_mib) == (("a100", "a100"), 64_000)
    assert found["c4"].partitions == {"cpu", "all"}
    new = nodes(tmp_path, {"upgrade": "1 x cpu-node to large-node", "memory_mb": 99_000})["c4"]
    assert (new.cores, new.memory_mib) == (8, 99_000)


NEW = {"processors": 8, "memory_mb": 1_000}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"remove": "g[1-2]"},
            "remove g[1-2]: partition 'gpu' would have no nodes; leave it one, or add some",
        ),
        (
            {"add": "1 x gpu-nod", "memory_mb": 5},
            "no machines of class 'gpu-nod' (did you mean 'gpu-node'?); say what new ones have: processors",
        ),
        ({"add": "1 x new", "processors": 8}, "say what new ones have: memory_mb"),
        (
            {"add": "10 x new", "gpus": {"h100": 4}},
            'processors and memory_mb, as { add = "10 x new", processors = 8, memory_mb = 64000, '
            'gpus = { h100 = 4 }, partitions = ["gpu", "all"] }',
        ),
        (
            {"change": "c[1-2]", "more_memory_mb": 9},
            "no machine class 'c[1-2]'; it has cpu-node, gpu-node; all machines of a class change",
        ),
        ({"add": "1 x new", **NEW}, "give the partitions of the new nodes, of cpu, gpu, all, as partitions"),
        ({"add": "1 x new", **NEW, "partitions": ["gpus"]}, "no partition 'gpus'; did you mean 'gpu'?"),
        (
            {"add": "1 x new", **NEW, "times_as_fast": 2.0, "partitions": ["gpu"]},
            "times_as_fast needs 'like'",
        ),
        ({"add": "1 x cpu-node as cluster c"}, "jobs on nodes use no clusters; leave out 'as cluster NAME'"),
        ({"add": "1 x cpu-node", "speedup": 2.0}, "jobs on nodes use no clusters; leave out 'speedup'"),
        ({"upgrade": "1 x cpu-node to gup-node"}, "no machine class 'gup-node' (did you mean 'gpu-node'?)"),
        (
            {"change": "cpu-node", "processors": 8},
            "nothing is changed: all machines of class 'cpu-node' have that",
        ),
        (
            {"change": "cpu-node"},
            "nothing is changed for class 'cpu-node'; give what they have or times_as_fast",
        ),
    ],
)
def test_changes_of_nodes_that_do_not_fit_are_rejected(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InapplicableChange) as error:
        nodes(tmp_path, change)
    assert message in str(error.value)


def test_machines_of_one_class_that_differ_say_nothing_of_new_ones(tmp_path: Path) -> None:
    differ = SITE.replace('names = ["c[1-4]"]', 'names = ["c[1-3]"]').replace(
        "[[partitions]]",
        '[[machines]]\nnames = ["c4"]\nmachine_class = "cpu-node"\nprocessors = 8\nmemory_mb = 9\n'
        "[[partitions]]",
        1,
    )
    with pytest.raises(
        InapplicableChange, match="machines of class 'cpu-node' differ in memory_mb; give memory_mb"
    ):
        nodes(tmp_path, {"add": "1 x cpu-node"}, site=differ)
    assert (
        nodes(tmp_path, {"add": "1 x cpu-node", "memory_mb": 7}, site=differ)["new-cpu-node-1"].memory_mib
        == 7
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"add": "1 x fast", "gpus": {"a100": 1}}, "'gpus' is of nodes that jobs share, and the site has no"),
        ({"change": "fast", "more_memory_mb": 5}, "'more_memory_mb' is of nodes that jobs share"),
        (
            {"upgrade": "1 x slow to fast", "memory_mb": 5},
            "'memory_mb' has no effect when machines are upgraded",
        ),
    ],
)
def test_keys_of_nodes_are_rejected_for_machines(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InapplicableChange) as error:
        imagined(tmp_path, change, site_text=TINY_SITE)
    assert message in str(error.value)


def test_jobs_of_a_log_request_the_same_whatever_nodes_are_bought(tmp_path: Path) -> None:
    """CPUs are rounded up to whole cores by the nodes that the site has, not by those it may buy."""
    accounting(tmp_path / "sacct.txt", 3)
    site = on_site(tmp_path, plan(log={"file": "sacct.txt", "weeks": 1}))
    new = NotionalTable.model_validate({"add": "1 x gpu-node", "threads_per_core": 4})
    today, changed = site.in_use(AS_IT_IS).log, site.in_use(Option("changed", (new,))).log
    assert today is not None
    assert changed is not None
    assert changed.requests == today.requests
    assert changed.jobs.equals(today.jobs)
    assert changed.processors == today.processors + 8


def test_more_memory_and_a_given_memory_are_not_both_possible() -> None:
    with pytest.raises(ValueError, match="either memory_mb or more_memory_mb"):
        NotionalTable.model_validate({"change": "a", "memory_mb": 1, "more_memory_mb": 1})


def test_gpus_without_a_type_are_rejected_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"gpus is 4; expected the number of each type, as \{ h100 = 4 \}"):
        NotionalTable.model_validate({"add": "1 x a", "gpus": 4})


def test_a_purchase_in_words_is_rejected_with_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"of a new class are a table: \{ add = .* gpus = \{ h100 = 4 \}"):
        NotionalTable.model_validate({"add": "10 nodes with 4 H100 each"})
