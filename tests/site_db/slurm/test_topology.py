"""Switches and blocks of topology.conf."""

from __future__ import annotations

import re
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


TREE = """---
- topology: other
  flat: true
- topology: ours     # that of the cluster
  cluster_default: true
  tree:
    switches:
      - {nodes: "n[0-1]", switch: s0}
      - switch: s1
        nodes: n[2-3]
      - switch: top
        children: s[0-1]
"""
OF_BLOCKS = """
- topology: ours
  block:
    block_sizes: [1, 4]
    blocks:
      - block: b0
        nodes: n[0-1]
      - {block: b1, nodes: "n[2-3]"}
"""


@pytest.mark.parametrize(
    ("text", "conf", "settings"),
    [
        (TREE, SWITCHES, "TopologyPlugin=topology/tree"),
        (OF_BLOCKS, f"{BLOCKS}BlockSizes=1,4", "TopologyPlugin=topology/block"),
    ],
)
def test_topology_yaml_states_the_same_as_topology_conf_and_takes_its_place(
    text: str, conf: str, settings: str, tmp_path: Path
) -> None:
    of_conf = read(tmp_path, conf, settings)
    (tmp_path / "topology.yaml").write_text(text)
    found = read(tmp_path, "SwitchName=x Nodes=n0\n", "")
    assert (found.topology, found.nodes) == (of_conf.topology, of_conf.nodes)


def test_further_topologies_of_partitions_are_counted(tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(TREE)
    (note,) = read(tmp_path, None, "").notes
    assert note == (
        f"{tmp_path}/topology.yaml, line 2: ignored: 1 further one (other): all partitions have topology ours"
    )


@pytest.mark.parametrize(
    "kind", ["ring: {rings: []}", "torus3d: {toruses: []}", "flat: {alpha_step_rank: true}"]
)
def test_without_a_tree_or_blocks_jobs_may_have_any_nodes(kind: str, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(f"- topology: r\n  {kind}\n")
    found, name = read(tmp_path, SWITCHES), kind.partition(":")[0]
    assert found.topology is None
    assert [note.partition("topology.yaml, ")[2] for note in found.notes] == [
        f"line 1: ignored: {name} (r), because only tree and block are modelled: jobs may have any nodes "
        "together"
    ] * (name != "flat")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "- topology: [",
            "line 1: no YAML; expected entries like '- topology: NAME', each with one of tree, ",
        ),
        ("tree: 1", "expected entries like '- topology: NAME'"),
        ("- topology: t\n- topology: u\n", "line 1: expected entries"),
        ("- topology: t\n  tree: {switchs: []}\n", "line 1: expected entries"),
        ("- topology: t\n  tree:\n    switches: []\n", "topology.yaml: it connects no nodes"),
        ("- topology: t\n  tree: {switches: [{switch: s, nodes: [n0]}]}\n", "line 1: expected entries"),
        (
            TREE.replace("children", "childs"),
            "line 11: childs is no key here; expected switch, block, nodes, children",
        ),
        (TREE.replace("switch: s1", "switch: s0"), "line 9: SwitchName=s0 is defined twice"),
        (TREE.replace("s[0-1]", "s[0-2]"), "line 11: switch s2 below top is not defined"),
        ("[]", "topology.yaml: expected entries"),
        ("[" * 5000, "topology.yaml"),
    ],
)
def test_a_mistake_in_topology_yaml_is_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(text)
    with pytest.raises(InvalidFile, match=re.escape(sentence)):
        read(tmp_path, None, "")


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
        (None, "topology/tree", "there is no topology.conf beside it: jobs may have any nodes"),
        (SWITCHES, "topology/ring", "only tree and block are modelled"),
        (SWITCHES, "topology/tree\nTopologyParam=dragonfly", "jobs are not spread over leaf switches"),
        (f"{SWITCHES}SwitchName=x Nodes=m[1-2]", "topology/tree", "2 nodes (m1, m2) of topology.conf are"),
        (f"{SWITCHES}SwitchName=x Nodes=n3", "topology/tree", "(n3) of topology.conf are on more than one"),
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
        ("SwitchName=s Node=n1", "tree", "line 1: Node is no key of topology/tree; expected one of"),
        (f"{SWITCHES}SwitchName=s0 Nodes=n1", "tree", "line 4: SwitchName=s0 is defined twice"),
        ("SwitchName=a Nodes=n1 Switches=b", "tree", "SwitchName=a has Nodes and Switches; expected one"),
        (f"{SWITCHES}SwitchName=t Switches=x", "tree", "line 4: switch x below t is not defined"),
        (f"{SWITCHES}SwitchName=t Switches=t", "tree", "line 4: switch t is above itself; expected a tree"),
        ("SwitchName=t Switches=s", "tree", "it connects no nodes; expected lines with Nodes="),
        (f"{BLOCKS}BlockSizes=2,6", "block", "BlockSizes is 2,6; expected numbers of nodes, each the"),
        (f"{BLOCKS}BlockSizes=0", "block", "BlockSizes is 0; expected numbers of nodes"),
    ],
)
def test_a_mistake_is_one_sentence(topology: str, plugin: str, mistake: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(tmp_path, topology, f"TopologyPlugin=topology/{plugin}")
    assert mistake in str(caught.value)
