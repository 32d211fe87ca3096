"""Switches and blocks of topology.conf."""

from __future__ import annotations

from pathlib import Path

import pytest

from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster

SWITCHES = "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=top Switches=s[0-1]\n"
BLOCKS = "BlockName=b0 Nodes=n[0-1]\nBlockName=b1 Nodes=n[2-3]\n"


def read(folder: Path, topology: str | None, settings: str = "TopologyPlugin=topology/tree") -> SiteNodes:
    (folder / "slurm.conf").write_text(f"{settings}\nNodeName=n[0-3] CPUs=4\nPartitionName=p Nodes=ALL\n")
    if topology is not None:
        (folder / "topology.conf").write_text(topology)
    return read_cluster(folder / "slurm.conf")


def test_nodes_state_their_leaf_switch_and_switches_their_leaves(tmp_path: Path) -> None:
    found = read(tmp_path, f"# Switches\n{SWITCHES}SwitchName=roof Switches=top LinkSpeed=9 # above\n")
    assert found.topology is not None
    assert [node.switch for node in found.nodes.values()] == ["s0", "s0", "s1", "s1"]
    assert found.topology.above == ((1, frozenset({0, 1})), (2, frozenset({0, 1})))
    assert (found.topology.max_wait_s, found.topology.is_optional, found.notes) == (300.0, False, ())


def test_a_topology_in_yaml_is_said_to_be_unread_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text("- topology: t\n  tree:\n    switches: []\n")
    (note,) = read(tmp_path, None, "SelectType=select/cons_tres").notes
    assert "topology.yaml: built-in schedulers do not read it; write its topology as topology.conf" in note


def test_the_longest_wait_and_topologies_that_are_optional_are_settings(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        SWITCHES,
        "TopologyPlugin=topology/tree\nTopologyParam=TopoOptional,Dragonfly\n"
        "SchedulerParameters=bf_interval=5,max_switch_wait=900",
    ).topology
    assert found is not None
    assert (found.max_wait_s, found.is_optional) == (900.0, True)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [("", (2,)), ("BlockSizes=2", (2,)), ("BlockSizes=1,2", (1,)), ("BlockSizes=1,4", (1,))],
)
def test_blocks_have_the_sizes_of_the_file_else_that_of_the_first(
    sizes: str, expected: tuple[int, ...], tmp_path: Path
) -> None:
    """A size of all base blocks is left out: the block of all has it."""
    found = read(tmp_path, f"{BLOCKS}{sizes}\n", "TopologyPlugin=topology/block").topology
    assert found is not None
    assert (found.leaves, found.block_sizes) == (("b1", "b0"), expected)


@pytest.mark.parametrize(
    ("topology", "settings", "note"),
    [
        (
            None,
            "topology/tree",
            "there is no topology.conf beside it: jobs may have any nodes",
        ),
        (SWITCHES, "topology/ring", "only tree and block are modelled"),
        (SWITCHES, "topology/tree\nTopologyParam=dragonfly", "jobs are not spread over leaf switches"),
        (
            f"{SWITCHES}SwitchName=x Nodes=m[1-2]",
            "topology/tree",
            "2 nodes (m1, m2) of topology.conf are",
        ),
        (
            f"{SWITCHES}SwitchName=x Nodes=n3",
            "topology/tree",
            "(n3) of topology.conf are on more than one",
        ),
        ("SwitchName=x Nodes=n[0-2]", "topology/tree", "1 node (n3) are on no switch: as in Slurm, no job"),
        ("BlockName=x Nodes=n[0-2]", "topology/block", "1 node (n3) are on no block: as in Slurm, no job"),
    ],
)
def test_what_is_not_modelled_is_a_note(
    topology: str | None, settings: str, note: str, tmp_path: Path
) -> None:
    (said,) = read(tmp_path, topology, f"TopologyPlugin={settings}").notes
    assert note in said


@pytest.mark.parametrize(
    ("topology", "plugin", "mistake"),
    [
        (BLOCKS, "tree", "line 1: BlockName is no key of topology/tree; expected one of SwitchName Nodes"),
        (
            "SwitchName=s Node=n1",
            "tree",
            "line 1: Node is no key of topology/tree; expected one of",
        ),
        (f"{SWITCHES}SwitchName=s0 Nodes=n1", "tree", "line 4: SwitchName=s0 is defined twice"),
        ("SwitchName=a Nodes=n1 Switches=b", "tree", "SwitchName=a has Nodes and Switches; expected one"),
        (f"{SWITCHES}SwitchName=t Switches=x", "tree", "line 4: switch x below t is not defined"),
        (f"{SWITCHES}SwitchName=t Switches=t", "tree", "line 4: switch t is above itself; expected a tree"),
        ("SwitchName=t Switches=s", "tree", "it connects no nodes; expected lines with Nodes="),
        (
            f"{BLOCKS}BlockSizes=2,6",
            "block",
            "BlockSizes is 2,6; expected numbers of nodes, each the",
        ),
        (f"{BLOCKS}BlockSizes=0", "block", "BlockSizes is 0; expected numbers of nodes"),
    ],
)
def test_a_mistake_is_one_sentence(topology: str, plugin: str, mistake: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(tmp_path, topology, f"TopologyPlugin=topology/{plugin}")
    assert mistake in str(caught.value)
