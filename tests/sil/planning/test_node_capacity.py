"""What nodes can carry, by hand."""

from __future__ import annotations

from math import inf
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from scheduler.node_request import Gpus, Node, Request
from sil.planning.load import AlikeNodes, Demand, Load, least_load
from sil.planning.options import AS_IT_IS, Option, one_of_each
from sil.settings.notional import NotionalTable
from tests.sil.planning.nodes_site import SITE, accounting, on_site, plan


def load(demands: list[tuple[Request, float]], *nodes: tuple[Node, int], licences: int = 0) -> Load:
    """Of so many jobs at a time with each request, on so many nodes of each kind."""
    kinds = [AlikeNodes(node, 0, count) for node, count in nodes]
    arriving = [
        Demand(f"class {k}", request, jobs / 100.0, np.full(len(kinds), 100.0))
        for k, (request, jobs) in enumerate(demands)
    ]
    return least_load(arriving, kinds, {"licence": licences} if licences else {}, "job class")


A_NODE = Node(cores=10, memory_mib=100)


BIG = Node(cores=10, memory_mib=1000)
OLD, NEW = Node(8, gpus=("old",) * 4), Node(8, gpus=("new",) * 4)
MIXED = Node(8, gpus=("old", "old", "new", "new"))
ANY_TYPE, ONLY_NEW = Request(cores=1, gpus=Gpus(2)), Request(cores=1, gpus=Gpus(2, types=frozenset({"new"})))
ALONE = Request(chunks=2, cores=1, exclusive=True)
TASKS = Request(chunks=25, cores=1, most_on_node=None, exclusive=True)
LICENSED = Request(chunks=3, cores=1, site_resources={"licence": 2})


@pytest.mark.parametrize(
    ("demands", "nodes", "rho", "scarce"),
    [
        pytest.param([(Request(cores=1, memory_mib=50), 3.0)], [(A_NODE, 2)], 3 / 4, "memory", id="memory"),
        pytest.param([(Request(cores=4, memory_mib=1), 3.0)], [(A_NODE, 2)], 12 / 20, "cores", id="cores"),
        pytest.param(
            [(Request(cores=9, memory_mib=10), 1.0), (Request(cores=1, memory_mib=90), 1.0)],
            [(A_NODE, 1)],
            1.0,
            None,
            id="complementary needs share nodes",
        ),
        # Cores: 12 in all, of 20; the heavy ones fit only on the big node, which they fill to 0.4 in memory.
        pytest.param(
            [(Request(cores=1, memory_mib=200), 2.0), (Request(cores=5), 2.0)],
            [(A_NODE, 1), (BIG, 1)],
            12 / 20,
            "cores",
            id="heavy jobs go to big nodes",
        ),
        pytest.param(
            [(ONLY_NEW, 1.5), (ANY_TYPE, 0.5)], [(OLD, 1), (NEW, 1)], 3 / 4, "GPUs", id="one type of GPU"
        ),
        pytest.param([(ONLY_NEW, 0.5), (ANY_TYPE, 1.0)], [(MIXED, 1)], 3 / 4, "GPUs", id="mixed GPUs"),
        pytest.param(
            [(Request(cores=0, gpus=Gpus(1, 0.25)), 6.0)],
            [(Node(8, gpus=("a",) * 2), 1)],
            6 * 0.25 / 2,
            "GPUs",
            id="parts of GPUs count by their share",
        ),
        pytest.param([(ALONE, 1.0)], [(A_NODE, 4)], 2 / 4, None, id="exclusive jobs need whole nodes"),
        pytest.param([(TASKS, 1.0)], [(A_NODE, 5)], 2.5 / 5, None, id="ten exclusive tasks on a node"),
        pytest.param([(LICENSED, 1.5)], [(A_NODE, 10)], 3 / 4, "licence", id="licences count once for a job"),
    ],
)
def test_the_load_is_that_of_the_scarcest_resource(
    demands: list[tuple[Request, float]], nodes: list[tuple[Node, int]], rho: float, scarce: str | None
) -> None:
    found = load(demands, *nodes, licences=4)
    assert found.rho == pytest.approx(rho)
    assert scarce in (None, found.scarce)


def test_classes_with_proportional_requests_are_one_without_changing_the_load() -> None:
    alone = load([(Request(cores=2, memory_mib=20), 1.0), (Request(cores=1, memory_mib=1), 1.0)], (A_NODE, 1))
    split = [(Request(cores=1, memory_mib=10), 1.0), (Request(cores=2, memory_mib=20), 0.5)]
    merged = load([*split, (Request(cores=1, memory_mib=1), 1.0)], (A_NODE, 1))
    assert merged.rho == pytest.approx(alone.rho)


def test_thousands_of_classes_take_seconds_at_most() -> None:
    rng = np.random.default_rng(3)
    classes = [
        (Request(cores=int(rng.integers(1, 65)), memory_mib=int(rng.integers(1, 2000)) * 100), 0.01)
        for _ in range(5000)
    ]
    began_s = perf_counter()
    kinds = [(Node(64, 200_000 + 1000 * k, partitions=frozenset({"p"})), 50) for k in range(6)]
    assert 0.0 < load(classes, *kinds).rho < 1.0
    assert perf_counter() - began_s < 20.0


def of(folder: Path, option: Option = AS_IT_IS, site: str = SITE, **more: Any) -> Load:
    found = on_site(folder, plan(**more), site).load(option)
    assert found is not None
    return found


def test_the_load_of_drawn_jobs_is_that_of_their_classes(tmp_path: Path) -> None:
    found = of(tmp_path)
    per_s = 0.0078 * 2.8 / 7.8
    assert found == Load(pytest.approx(per_s * 1200 / 4), "train", "GPUs")
    more_gpus, more_cores = one_of_each(plan())
    assert of(tmp_path, more_gpus).rho == pytest.approx(per_s * 1200 / 6)
    assert of(tmp_path, more_cores).rho == pytest.approx(found.rho)


def test_jobs_that_end_at_their_time_limits_are_less_load(tmp_path: Path) -> None:
    limited = SITE.replace(
        'gpus = 1, partitions = ["gpu"]', 'gpus = 1, partitions = ["gpu"], time_limit_s = 600'
    )
    whole = of(tmp_path, site=limited, nodes={"time_limits": "ignored"}).rho
    assert of(tmp_path, site=limited).rho == pytest.approx(max(whole / 2, 0.0078 * 5 / 7.8 * 600 / 8))


def test_the_load_of_a_log_is_that_of_its_whole_weeks(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    site = on_site(tmp_path, plan(log={"file": "sacct.txt", "weeks": 2}))
    log = site.in_use(AS_IT_IS).log
    assert log is not None
    jobs = log.jobs.with_columns(gpus=log.requested["requested_gpus"])
    within = jobs.filter(jobs["submit_s"] - jobs["submit_s"][0] < 3 * 7 * 86_400)
    expected = (within["run_s"] * within["gpus"]).sum() / (3 * 7 * 86_400) / 4
    assert site.load(AS_IT_IS) == Load(pytest.approx(expected), "gpu", "GPUs", "partition")


def test_a_site_that_loses_the_only_nodes_for_some_jobs_carries_nothing(tmp_path: Path) -> None:
    large = SITE.replace("memory_mb = 8_000, gpus = 1", "memory_mb = 8_000, gpus = 4, cores = 2", 1)
    needs_both = large.replace("{ cores = 2, memory_mb = 8_000, gpus = 4, cores = 2", "{ nodes = 2, gpus = 2")
    one_gone = Option("without one", (NotionalTable(remove="g2"),))
    assert of(tmp_path, one_gone, needs_both) == Load(inf, "train")


def test_jobs_of_a_log_that_are_refused_today_are_no_load(tmp_path: Path) -> None:
    accounting(tmp_path / "sacct.txt", 3)
    before = of(tmp_path, log={"file": "sacct.txt", "weeks": 2}).rho
    day = "2026-01-0{}T00:00:00"
    times = "|".join(day.format(number) for number in (6, 6, 8))
    huge = f"9999|bob|gpu|{times}|COMPLETED|9000|cpu=2,node=1,gres/gpu=3|"
    with (tmp_path / "sacct.txt").open("a") as file:
        file.write(huge + "\n")
    assert of(tmp_path, log={"file": "sacct.txt", "weeks": 2}).rho == pytest.approx(before)
