from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scheduler.node_request import Node, Partition
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from site_db.slurm_conf import read_cluster

IB = frozenset({"ib", "avx"})


def number(n: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": n}


UNSET = {"set": False, "infinite": False, "number": 0}
INFINITE = {"set": False, "infinite": True, "number": 0}
EXPECTED = {
    "n1": Node(14, 62_000, ("a100", "a100"), {}, IB, frozenset({"batch", "gpu"})),
    "n2": Node(16, 32_000, (), {}, frozenset(), frozenset({"batch"})),
}
V0_0_38 = json.loads("""{"nodes": [
    {"name": "n1", "cpus": 14, "sockets": 2, "cores": 8, "threads": 1, "boards": 1, "real_memory": 62000,
     "gres": "gpu:a100:2(S:0-1)", "features": "ib,avx", "state": "idle", "state_flags": [],
     "partitions": ["batch", "gpu"], "operating_system": "Linux 5.14 #1 SMP"},
    {"name": "n2", "cpus": 16, "sockets": 2, "cores": 8, "threads": 1, "boards": 1, "real_memory": 32000,
     "gres": "", "features": "", "state": "idle", "state_flags": ["DRAIN"], "partitions": ["batch"]}
], "errors": []}""")
V0_0_40 = json.loads("""{"nodes": [
    {"name": "n1", "cpus": 16, "sockets": 2, "cores": 8, "threads": 1, "boards": 1, "real_memory": 64000,
     "specialized_memory": 2000, "specialized_cores": 2, "specialized_cpus": "", "gres": "gpu:a100:2(S:0-1)",
     "features": ["ib", "avx"], "state": ["IDLE"], "partitions": ["batch", "gpu"]},
    {"name": "n2", "cpus": {"set": true, "infinite": false, "number": 16}, "sockets": 2, "cores": 8,
     "threads": 1, "boards": 1, "real_memory": {"set": true, "infinite": false, "number": 32000},
     "specialized_cores": {"set": false, "infinite": false, "number": 0}, "gres": "(null)", "features": [],
     "state": ["MIXED", "NOT_RESPONDING"], "partitions": ["batch"]}
], "meta": {"plugin": {"data_parser": "data_parser/v0.0.40"}}, "errors": []}""")


def sinfo(name: str, state: list[str], cpus: int, mib: int, gres: str, *partitions: str) -> list[Any]:
    def same(n: int) -> dict[str, Any]:
        return {"minimum": n, "maximum": n}

    return [
        {
            "node": {"state": state},
            "nodes": {"nodes": [name], "total": 1},
            "cpus": same(cpus),
            "sockets": same(2),
            "cores": same(8),
            "threads": same(1),
            "memory": {**same(mib), "free": {"minimum": number(1), "maximum": UNSET}},
            "features": {"total": "ib,avx" if gres else "", "active": ""},
            "gres": {"total": gres, "used": ""},
            "resource_spec": {"cpus": "0,15" if gres else "", "memory": 2000 if gres else 0},
            "partition": {"name": partition, "maximums": {"time": INFINITE}},
        }
        for partition in partitions
    ]


SINFO = {
    "sinfo": [
        *sinfo("n1", ["ALLOCATED"], 16, 64000, "gpu:a100:2", "batch", "gpu"),
        *sinfo("n2", ["DOWN", "NOT_RESPONDING"], 16, 32000, "", "batch"),
    ]
}


def read(folder: Path, *documents: object) -> SiteNodes:
    path = folder / "nodes.json"
    path.write_text("\n".join(map(json.dumps, documents)))
    return read_cluster(path)


@pytest.mark.parametrize("document", [V0_0_38, V0_0_40, SINFO], ids=["v0.0.38", "v0.0.40", "sinfo"])
def test_json_of_each_release_describes_the_same_nodes(document: object, tmp_path: Path) -> None:
    found = read(tmp_path, document)
    assert (found.nodes, found.down, found.notes) == (EXPECTED, {"n2"}, ())


@pytest.mark.parametrize(
    "partition",
    [
        {
            "name": "gpu",
            "nodes": "n1",
            "max_time_limit": 60,
            "default_time_limit": 30,
            "maximum_nodes_per_job": 2,
            "state": "UP",
            "allowed_accounts": "phys",
            "flags": [],
        },
        {
            "name": "gpu",
            "nodes": {"configured": "n1", "total": 1},
            "defaults": {"time": number(30)},
            "maximums": {"time": number(60), "nodes": number(2), "shares": 1},
            "accounts": {"allowed": "phys", "deny": ""},
            "partition": {"state": ["UP"]},
        },
    ],
    ids=["v0.0.38", "v0.0.43"],
)
def test_partitions_in_json_have_their_limits(partition: object, tmp_path: Path) -> None:
    unlimited = {
        "name": "batch",
        "nodes": {"configured": "n[1-2]"},
        "maximums": {"time": INFINITE, "shares": 0, "nodes": 2**32 - 1},
    }
    found = read(tmp_path, V0_0_40, {"partitions": [partition, unlimited]})
    assert found.partitions == {
        "gpu": Partition("gpu", 3600.0, 2, default_time_s=1800.0),
        "batch": Partition("batch", is_exclusive=True),
    }
    assert found.notes == (
        f"{tmp_path}/nodes.json: partition gpu: ignored: AllowAccounts=phys of PartitionName=gpu, because "
        f"all users may use a partition, unless a queue ([[queues]]) has users",
    )


def test_groups_of_sinfo_are_read_with_a_note_and_refused_where_nodes_differ(tmp_path: Path) -> None:
    (group,) = sinfo("n1", ["IDLE"], 4, 1000, "", "batch")
    group["nodes"]["nodes"] = ["n1", "n2"]
    found = read(tmp_path, {"sinfo": [group]})
    assert list(found.nodes) == ["n1", "n2"]
    assert "give it -N, or use scontrol show node --json" in found.notes[0]
    group["memory"]["maximum"] = 2000
    with pytest.raises(InvalidFile, match="the nodes n1, n2 have from 1000 to 2000 memory, so that"):
        read(tmp_path, {"sinfo": [group]})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"nodes": [', "line 1: this JSON cannot be read: Expecting value"),
        ("{}", "there is no node; expected"),
        (
            '{"nodes": 3}',
            "line 1: 'nodes' is not a list of objects; expected the output of scontrol or sinfo",
        ),
        ('{"nodes": [{"cpus": 3}]}', "an object has no name; expected the output of scontrol or sinfo"),
        ('{"nodes": [{"name": "a"}, {"name": "a", "cpus": 2}]}', "node a is defined twice"),
        ('{"nodes": [{"name": "a", "cpus": "x"}]}', "node a: cpus is 'x'; expected a whole number"),
        ('{"a":' * 100_000, "it is nested too deeply, or a number has too many digits"),
        ('{"nodes": [{"name": "a", "cpus": ' + "9" * 5000 + "}]}", "it is nested too deeply, or a number"),
        ("{} 3", "line 1: this JSON cannot be read: Expecting '{'; expected the output of scontrol"),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_is_no_description_of_nodes_is_refused_in_a_sentence(
    text: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "nodes.json").write_text(text)
    with pytest.raises(InvalidFile) as caught:
        read_cluster(tmp_path / "nodes.json")
    assert sentence in str(caught.value)
