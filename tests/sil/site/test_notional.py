"""Sites that are only imagined: machines added, removed, upgraded, and what is believed of them."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scheduler.model import Interconnect, Job, JobId
from sil.runs.machines_scenario import MachinesScenario
from sil.settings.experiment_file import read_experiment
from sil.settings.notional import NotionalTable
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.site.what_if_site import Absence, InapplicableChange
from sil.trace.facts import Fact
from sil.trace.reading import read_facts, read_trace
from sil.world.actual_runtimes import ActualRuntimes
from site_db.files.input_errors import InvalidFile
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.sil.experiment.test_experiment import run

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")


def imagined(folder: Path, *changes: dict[str, Any], site_text: str = TINY_SITE) -> SiteInUse:
    path = tiny_experiment(folder, site_text=site_text)
    notional = tuple(NotionalTable.model_validate(change) for change in changes)
    experiment = read_experiment(path).model_copy(update={"notional": notional})
    return SiteSource(experiment, folder, None).snapshot(folder / "results.db")


def seconds(in_use: SiteInUse, job_class: str) -> dict[str, float]:
    """Expected seconds on each machine and cluster where a job class can run."""
    members = [len(machines) for machines in in_use.site.members]
    etc = in_use.experience().estimate([Job(JobId(0), job_class, 0.0)], members)
    row = zip(in_use.site.resource_names, etc.row(0).tolist(), strict=True)
    return {name: round(s, 6) for name, s in row if s < inf}


def test_machines_of_a_known_class_are_as_fast_as_existing_ones(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"add": "2 x slow"})
    assert seconds(in_use, "short") == {
        "f1": 10, "f2": 10, "s1": 30, "s2": 30, "new-slow-1": 30, "new-slow-2": 30, "pair": 6,
    }  # fmt: skip
    added = next(group for group in in_use.file.machines if "new-slow-1" in group.names)
    assert added.notional


def test_names_of_classes_and_clusters_may_contain_spaces(tmp_path: Path) -> None:
    spaced = TINY_SITE.replace('"slow"', '"very slow"').replace("slow =", '"very slow" =')
    in_use = imagined(
        tmp_path,
        {"upgrade": "1 x very slow to fast"},
        {"remove": "1 x very slow"},
        {"add": "2 x very slow as cluster the new one over lan", "speedup": 1.5},
        site_text=spaced,
    )
    assert seconds(in_use, "short")["the new one"] == 20.0
    classes = [machine.machine_class for machine in in_use.site.machines]
    assert sorted(classes) == ["fast"] * 3 + ["very slow"] * 2


def test_a_new_class_has_the_given_times(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"add": "1 x faster", "sequential_s": {"short": 4.0}})
    assert seconds(in_use, "short")["new-faster-1"] == 4.0
    assert "new-faster-1" not in seconds(in_use, "long"), "nothing was said of that"


def test_a_new_class_may_be_a_multiple_as_fast_as_another(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"add": "1 x faster", "like": "fast", "times_as_fast": 2.0})
    assert seconds(in_use, "short")["new-faster-1"] == 5.0
    assert seconds(in_use, "long")["new-faster-1"] == 50.0


def test_a_cluster_scales_like_others_over_its_interconnect(tmp_path: Path) -> None:
    # The pair: 6 s against 10 s alone, so a = (2 x 6 / 10 - 1) / 1 = 0.2, and S(4) = 4 / (1 + 0.2 x 3) = 2.5.
    in_use = imagined(tmp_path, {"add": "4 x slow as cluster quartet over lan"})
    assert seconds(in_use, "short")["quartet"] == 12.0
    assert "quartet" not in seconds(in_use, "long"), "it runs in parallel nowhere"


def test_a_cluster_may_have_its_own_speedup_or_times(tmp_path: Path) -> None:
    fast = imagined(tmp_path, {"add": "4 x fast as cluster c", "speedup": 4.0})
    assert seconds(fast, "short")["c"] == 2.5
    said = imagined(tmp_path, {"add": "4 x fast as cluster c", "parallel_s": {"short": 3.0, "long": 40.0}})
    assert (seconds(said, "short")["c"], seconds(said, "long")["c"]) == (3.0, 40.0)


def test_a_cluster_may_use_an_interconnect_that_the_site_does_not_have(tmp_path: Path) -> None:
    change = {"add": "2 x slow as cluster c over light", "bandwidth_mbit_per_s": 1e5, "latency_us": 0.5}
    in_use = imagined(tmp_path, {**change, "speedup": 2.0})
    assert in_use.site.interconnects[-1] == Interconnect("light", 1e5, 0.5)
    assert in_use.site.clusters[-1].interconnects == ("light",)
    assert seconds(in_use, "short")["c"] == 15.0
    with pytest.raises(InapplicableChange, match="run times over the new interconnect 'light' are unknown"):
        imagined(tmp_path, change)
    with pytest.raises(
        InapplicableChange,
        match="the site has an interconnect 'lan'; leave out bandwidth_mbit_per_s and latency_us",
    ):
        imagined(tmp_path, {**change, "add": "2 x slow as cluster c over lan", "speedup": 2.0})


def test_a_whole_class_may_become_faster_with_its_cluster(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"change": "fast", "memory_mb": 512, "times_as_fast": 2.0})
    # The pair: S(2) = 2 / 1.2 by the law, of 5 s.
    assert seconds(in_use, "short") == {"f1": 5, "f2": 5, "s1": 30, "s2": 30, "pair": 3}
    assert {group.memory_mb for group in in_use.file.machines if "f1" in group.names} == {512}


def test_two_changes_of_one_class_are_cumulative(tmp_path: Path) -> None:
    faster = {"change": "slow", "times_as_fast": 2.0, "rating": 3.0}
    fewer = {"remove": "1 x slow"}
    in_use = imagined(tmp_path, faster, {"change": "slow", "times_as_fast": 1.5}, fewer)
    assert seconds(in_use, "short") == {"f1": 10, "f2": 10, "s1": 10, "pair": 6}
    assert {group.rating for group in in_use.file.machines if "s1" in group.names} == {3.0}


def test_a_memory_change_is_reported_as_having_no_effect(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, '[[notional]]\nchange = "fast"\nmemory_mb = 512\n')
    done = succeeded("run", path, "--out", tmp_path / "out")
    printed = " ".join(done.stderr.split())
    assert "change fast: on dedicated machines no run time depends on memory" in printed


def test_a_cluster_that_loses_members_slows_down_and_an_empty_one_is_removed(tmp_path: Path) -> None:
    less = imagined(tmp_path, {"remove": "1 x fast"})
    assert seconds(less, "short") == {"f1": 10, "s1": 30, "s2": 30, "pair": 12}
    gone = imagined(tmp_path, {"remove": "pair"})
    assert seconds(gone, "short") == {"s1": 30, "s2": 30}
    assert not gone.site.clusters


def test_upgraded_machines_keep_their_names_and_their_cluster_gets_new_times(tmp_path: Path) -> None:
    slower = TINY_SITE.replace('names = ["f[1-2]"]', 'names = ["f[1-2]", "g[1-2]"]')
    other = '{ name = "other", members = ["s1", "s2"], interconnects = ["lan"] }'
    slower = slower.replace("clusters = [", f"clusters = [{other}, ")
    in_use = imagined(tmp_path, {"upgrade": "2 x slow to fast"}, site_text=slower)
    machines = {"f1": 10, "f2": 10, "g1": 10, "g2": 10, "s1": 10, "s2": 10, "pair": 6}
    assert seconds(in_use, "short") == machines, "the other cluster was in no parallel use"
    used = slower.replace("pair = 6", "pair = 6, other = 25")
    in_use = imagined(tmp_path, {"upgrade": "2 x slow to fast"}, site_text=used)
    # a is 0.2 on the pair and (2 x 25 / 30 - 1) on the other: 13/30 in the mean; S(2) = 2 / (1 + 13/30).
    assert seconds(in_use, "short")["other"] == pytest.approx(10 * (1 + 13 / 30) / 2)


def test_an_unknown_class_with_a_rating_gets_an_estimate_and_its_uncertainty(tmp_path: Path) -> None:
    in_use = imagined(tmp_path, {"add": "1 x unknown", "rating": 2.0})
    # Nothing has run: the mean of the times that the staff gave, 10, 30 and 6 s.
    assert seconds(in_use, "short")["new-unknown-1"] == pytest.approx(46 / 3)
    deviation = np.std([10.0, 30.0, 6.0], ddof=1) / (46 / 3)
    assert in_use.uncertainty["short", "unknown"] == pytest.approx(deviation)
    experiment = read_experiment(tmp_path / "experiment.toml")
    scenario = MachinesScenario.of(experiment, in_use)
    jobs = [job._replace(job_class="short") for job in scenario.jobs()]
    new = in_use.site.machine_index["new-unknown-1"]
    truths = [ActualRuntimes(*scenario.at(0, k).run_times(jobs)) for k in range(40)]
    new_s = [truth.run_s(jobs[0], new, 1.0) for truth in truths]
    assert len(set(new_s)) == 40, "another truth in each replication"
    assert len({truth.run_s(jobs[0], 0, 1.0) for truth in truths}) == 1, "what is known stays"
    assert np.mean(new_s) == pytest.approx(46 / 3, rel=0.4)


def test_machines_are_added_and_removed_at_the_given_times(tmp_path: Path) -> None:
    more = 'arrivals = { kind = "poisson", jobs_per_quantum = 2 }\n'
    more += '[[notional]]\nadd = "1 x fast"\nfrom_s = 25\n\n[[notional]]\nremove = "f1"\nfrom_s = 15\n'
    path = tiny_experiment(tmp_path, more, schedulers='["mct"]', replications="1", jobs="30")
    assert not run(path, tmp_path / "out").faults
    facts, described = read_trace(tmp_path / "out" / "trace.parquet")
    new, old = described.machines.index("new-fast-1"), described.machines.index("f1")
    started = facts.filter(pl.col("event") == Fact.RUN_STARTED)
    assert 25.0 <= started.filter(pl.col("resource") == new)["time_s"].min() < 60.0
    assert started.filter(pl.col("resource") == old)["time_s"].max() <= 15.0
    assert imagined(tmp_path, {"add": "1 x fast", "from_s": 5.0, "until_s": 9.0}).absences == (
        Absence("new-fast-1", 0.0, 5.0),
        Absence("new-fast-1", 9.0, inf),
    )


def test_the_same_changes_by_file_and_by_option_give_the_same_result(tmp_path: Path) -> None:
    more = '\n[[notional]]\nadd = "2 x fast as cluster new over lan"\n\n[[notional]]\nremove = "1 x slow"\n'
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    by_file = tiny_experiment(tmp_path / "a", more, schedulers='["pjs"]')
    by_option = tiny_experiment(tmp_path / "b", schedulers='["pjs"]')
    options = ("--add", "2 x fast as cluster new over lan", "--remove", "1 x slow")
    for path, chosen in ((by_file, ()), (by_option, options)):
        done = succeeded("run", path, *chosen, "--out", path.parent / "out", "--workers", "1")
        assert "what-if changes of the site" in " ".join(done.output.split())
    first, second = (read_facts(tmp_path / name / "out" / "trace.parquet") for name in "ab")
    assert first.equals(second)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"add": "2 x slwo"}, r"no machine class 'slwo' \(did you mean 'slow'\?\); for a new class"),
        ({"add": "2 x new", "like": "fats"}, "the site has no machine class 'fats'; did you mean 'fast'"),
        ({"add": "2 x new", "sequential_s": {"shrot": 1.0}}, "no job class 'shrot'; did you mean 'short'"),
        ({"add": "2 x fast", "like": "slow"}, "the site has the class 'fast'; leave out like"),
        ({"add": "2 x fast", "speedup": 2.0}, "'speedup' applies only to a cluster"),
        ({"add": "2 x fast as cluster pair"}, "the site has a cluster 'pair' already"),
        (
            {"add": "2 x slow as cluster f1 over lan"},
            "'f1' is the name of a machine; choose another name for the cluster",
        ),
        ({"add": "2 x slow as cluster c"}, "the interconnect of cluster 'c' is missing"),
        ({"add": "2 x slow as cluster c over lna"}, "no interconnect 'lna'; did you mean 'lan'"),
        ({"remove": "3 x fast"}, "there are 2 machines of 'fast', and 3 are named"),
        ({"remove": "f7"}, "no machine, machine class or cluster 'f7'"),
        ({"remove": "f[1-2] s[1-2]"}, "would remove every machine of the site"),
        ({"upgrade": "1 x slow to quick"}, "the site has no machine class 'quick'"),
        ({"change": "fast"}, "nothing is changed for class 'fast'"),
    ],
)
def test_an_inapplicable_change_is_rejected_in_one_sentence(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InapplicableChange, match=message):
        imagined(tmp_path, change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('add = "two fast"', "'two fast' is not a valid change; expected something like '8 x"),
        ('add = "0 x fast"', "names 0 machines; expected 1 to 100,000"),
        ('add = "1 x fast"\nremove = "f1"', "has one of add, remove, upgrade, change, and this one has add"),
        ("from_s = 5", "has one of add, remove, upgrade, change, and this one has none"),
        ('remove = "f1"\nspeedup = 2', "'speedup' has no effect when machines are removed; leave it out"),
        ('add = "1 x fast"\nfrom_s = 9\nuntil_s = 5', "'until_s' is 5; expected more than 'from_s', 9"),
        ('add = "1 x fsat"', "line 12: add 1 x fsat: the site has no machine class 'fsat'"),
    ],
)
def test_an_error_in_the_file_is_reported_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path, f"\n[[notional]]\n{text}\n")
    with pytest.raises(InvalidFile) as caught:
        run(path, tmp_path / "out")
    assert message in str(caught.value)
    assert "experiment.toml, line" in str(caught.value)


def test_an_error_on_the_command_line_names_no_file(tmp_path: Path) -> None:
    path = tiny_experiment(tmp_path)
    printed = the_sentence(sil("run", path, "--add", "3 x fsat", "--out", tmp_path / "out"))
    assert printed.startswith("add 3 x fsat: the site has no machine class 'fsat'")
