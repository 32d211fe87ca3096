"""Plans for joining clusters: a meta-scheduler over them, or one site with the nodes of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduler import UserError
from sil.planning.answers import Prepared
from sil.planning.options import AS_IT_IS, bought
from sil.planning.plan_file import Plan
from sil.planning.sites import OnSite
from sil.runs.several_clusters import OneSite, SeveralClusters, one_file
from site_db.files.input_errors import InvalidFile
from site_db.site_file.importing import read_site_file

SITE = """
name = "{name}"
machine_classes = [{{ name = "{cpu}" }}]
site_resources = [{{ name = "licence", amount = 3 }}]
[[machines]]
names = ["n[1-2]"]
machine_class = "{cpu}"
processors = 2
memory_mb = 1000
[[partitions]]
name = "all"
nodes = ["n[1-2]"]
max_time_s = {limit_s}
[[job_classes]]
name = "small"
request = {{ cores = 1, time_limit_s = {limit_s} }}
sequential_s = {{ {cpu} = {run_s} }}
"""


def site(folder: Path, name: str, cpu: str = "cpu", run_s: float = 10.0, limit_s: float = 100.0) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(SITE.format(name=name, cpu=cpu, run_s=run_s, limit_s=limit_s))
    return path


def plan_of(folder: Path, joined: dict[str, str], mean_s: float = 4.0, **others: Any) -> Plan:
    come = {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": mean_s}
    return Plan.model_validate(
        {
            "name": "join",
            "site": str(folder / "east.toml"),
            "schedulers": ["home"],
            "clusters": [
                {"name": "east", "scheduler": "fcfs"},
                {"name": "west", "scheduler": "fcfs", "site": str(folder / "west.toml")},
            ],
            "workload": {"jobs": 60, "arrivals": come},
            "offers": [{"name": name, "scheduler": of, "price": 1} for name, of in joined.items()],
            "first_replications": 2,
            "most_replications": 2,
            "goals": [{"metric": "mean_turnaround"}, {"metric": "mean_turnaround", "cluster": "west"}],
            **others,
        }
    )


def sites(folder: Path, **of_west: Any) -> None:
    site(folder, "east")
    site(folder, "west", **of_west)
    (folder / "plan.toml").touch()


def test_one_site_has_the_nodes_of_all_and_one_partition_of_each_name(tmp_path: Path) -> None:
    files = [read_site_file(site(tmp_path, "east")), read_site_file(site(tmp_path, "west", "fast", 5.0))]
    one = one_file(dict(zip(("a", "b"), files, strict=True)))
    assert [name for group in one.machines for name in group.names] == ["a-n1", "a-n2", "b-n1", "b-n2"]
    assert [(table.name, table.nodes) for table in one.partitions] == [
        ("all", ("a-n1", "a-n2", "b-n1", "b-n2"))
    ]
    assert one.job_classes[0].sequential_s == {"cpu": 10.0, "fast": 5.0}
    assert [(table.name, table.amount) for table in one.site_resources] == [("licence", 6)]


@pytest.mark.parametrize(
    ("of_west", "says"),
    [
        ('[[queues]]\nname = "urgent"\npriority = 1\n', "differ in queues"),
        ('[[users]]\nname = "ann"\n', "differ in users"),
        ('[topology]\nleaves = ["s1"]\n', "'west' has switches or blocks"),
    ],
)
def test_what_one_site_would_not_have_is_refused(tmp_path: Path, of_west: str, says: str) -> None:
    east, west = site(tmp_path, "east"), site(tmp_path, "west")
    west.write_text(west.read_text() + of_west)
    with pytest.raises(UserError, match=says):
        one_file({"east": read_site_file(east), "west": read_site_file(west)})


@pytest.mark.parametrize(
    ("of_west", "says"),
    [
        ({"run_s": 11.0}, "'small' differs in job_classes of their sites"),
        ({"limit_s": 90.0}, "'all' differs in partitions of their sites"),
    ],
)
def test_sites_that_mean_different_things_by_one_name_are_no_site(
    tmp_path: Path, of_west: dict[str, float], says: str
) -> None:
    sites(tmp_path, **of_west)
    with pytest.raises(InvalidFile, match=says):
        Prepared(plan_of(tmp_path, {"one": "fcfs"}), tmp_path / "plan.toml", None)


def test_all_options_have_the_same_jobs_which_wait_least_where_any_node_is_for_all(tmp_path: Path) -> None:
    sites(tmp_path)
    plan = plan_of(tmp_path, {"one": "fcfs", "redundant": "everywhere"}, mean_s=3.0)
    on_site = OnSite(plan, tmp_path, None)
    options = [AS_IT_IS, bought(plan, (1, 0)), bought(plan, (0, 1))]
    kinds = [type(on_site.scenario(option)) for option in options]
    assert kinds == [SeveralClusters, OneSite, SeveralClusters]
    ran = [on_site.run(option, "home", 1).simulate() for option in options]
    times = ["job_id", "submission_time", "execution_time", "home"]
    apart, one, redundant = (each.jobs.sort("job_id") for each in ran)
    for other in (one, redundant):
        assert other.select(*times[:2], "home").equals(apart.select(*times[:2], "home"))
        assert np.allclose(other["execution_time"], apart["execution_time"])
    # Equal nodes, jobs of one core, first come, first served: a queue at each is a queue for both.
    assert np.allclose(one["finish_time"], redundant["finish_time"])
    assert one["waiting_time"].mean() < apart["waiting_time"].mean()  # type: ignore[operator]


def test_the_load_is_that_of_the_busier_cluster_until_they_are_joined(tmp_path: Path) -> None:
    sites(tmp_path)
    busy = {"jobs": 60, "arrivals": {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": 2.5}}
    plan = plan_of(tmp_path, {"one": "fcfs", "redundant": "everywhere"}, mean_s=10.0, workload=busy)
    calm = {"jobs": 60, "arrivals": {"kind": "poisson", "jobs_per_quantum": 1, "quantum_s": 10}}
    given = plan.model_dump(exclude_unset=True)
    given["clusters"][1]["workload"] = calm
    plan = Plan.model_validate(given)
    with pytest.raises(UserError, match=r"1\.00 times what the site can carry"):
        Prepared(plan.model_copy(update={"offers": ()}), tmp_path / "plan.toml", None)
    prepared = Prepared(plan, tmp_path / "plan.toml", None)
    loads = {name: load and round(load.rho, 6) for name, load in prepared.loads.items()}
    # 4 cores that carry 0.4 jobs a second: 10 s at each of 2.5 s is all of them, and with 0.1/s, 5/8 of 8.
    assert loads == {"as it is": 1.0, "one": 0.625, "redundant": 0.625}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"offers": [{"name": "x", "changes": ["1 x cpu"], "price": 1}]},
            "needs 'scheduler' with this forecast",
        ),
        ({"retire": {"count": 1}}, "retire is not for several clusters; leave it out"),
        ({"clusters": []}, r"offers\[0\] \('one'\) needs 'changes' with this forecast"),
    ],
)
def test_what_a_plan_for_clusters_cannot_have_is_said(
    tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    sites(tmp_path)
    with pytest.raises(ValueError, match=says):
        plan_of(tmp_path, {"one": "fcfs"}, **changed)


def test_wrong_names_in_a_plan_for_clusters_have_their_place(tmp_path: Path) -> None:
    sites(tmp_path)
    for changed, says in (
        ({"goals": [{"cluster": "north"}]}, "of the cluster 'north', and the plan has east, west"),
        ({"offers": [{"name": "x", "scheduler": "olb", "price": 1}]}, "'olb' maps jobs to machines"),
        ({"offers": [{"name": "x", "scheduler": "nearest", "price": 1}]}, "nearest"),
    ):
        with pytest.raises(InvalidFile, match=says):
            Prepared(plan_of(tmp_path, {"one": "fcfs"}, **changed), tmp_path / "plan.toml", None)
