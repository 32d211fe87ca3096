"""Sites of nodes: from Slurm's files into the database, shown, checked, and in experiments."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sil.settings.experiment_file import read_experiment
from sil.site.past_log import past_log
from sil.site.site_in_use import SiteSource
from site_db import store
from site_db.sites import SiteReader
from site_db.store import parse_address
from tests.builders import TINY_SITE
from tests.sil.test_cli import sil, the_sentence
from tests.sil.test_database_commands import done, row_of
from tests.site_db.jobs.test_accounting_import import ENDS, Row, log_of
from tests.site_db.site_texts import NODES

pytestmark = [pytest.mark.usefixtures("in_this_process", "without_reports")]

CONF = """Licenses=matlab:5
NodeName=n[01-10] CPUs=64 RealMemory=256000
NodeName=g1 CPUs=32 RealMemory=512000 Gres=gpu:h100:2,gpu:a100:4
PartitionName=batch Nodes=n[01-10] MaxTime=1-0 DefaultTime=90
PartitionName=gpu Nodes=g1 OverSubscribe=EXCLUSIVE MaxNodes=1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty database in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SIL_DATABASE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    (tmp_path / "slurm.conf").write_text(CONF)
    done("init")
    return tmp_path


def import_log(rows: Iterable[Row], folder: Path) -> None:
    done("import-sacct", log_of(rows, folder), "--db", "site.db#ours")


def jobs_of(experiment: str, folder: Path) -> pl.DataFrame:
    """The table of jobs of an experiment on the site, of which there may be several."""
    out = folder / f"out-{len([*folder.glob('out-*')])}"
    (folder / "experiment.toml").write_text(f'name = "trial"\nsite = "from the database"\n{experiment}')
    result = sil("run", "experiment.toml", "--site", "site.db", "--out", out)
    assert result.exit_code == 0, result.output
    return pl.read_csv(out / "jobs.csv")


def makespans(jobs: pl.DataFrame) -> dict[str, float]:
    by_scheduler = jobs.group_by("scheduler").agg(pl.col("finish_time").max())
    return dict(by_scheduler.iter_rows())


# -- experiments on accounting -----------------------------------------------------------------------------


def test_64_one_core_jobs_that_ran_at_once_run_at_once_again(here: Path) -> None:
    import_log((Row(str(k), "n01", 0, 60) for k in range(64)), here)
    experiment = 'schedulers = ["fcfs", "easy"]\n[workload]\njobs = 64\n'
    assert makespans(jobs_of(experiment, here)) == {"fcfs": 3_600.0, "easy": 3_600.0}
    # One more has to wait for a core.
    more = experiment.replace("64", "65")
    assert makespans(jobs_of(more, here)) == {"fcfs": 7_200.0, "easy": 7_200.0}
    done("import-slurm-conf", "slurm.conf")
    assert makespans(jobs_of(experiment, here)) == {"fcfs": 3_600.0, "easy": 3_600.0}


def test_a_job_of_two_nodes_runs_for_an_hour_on_two_of_ten(here: Path) -> None:
    pairs = [f"n[{k:02}-{k + 1:02}]" for k in range(1, 10, 2)]
    import_log((Row(str(k), pair, 0, 60, "cpu=8,node=2", cpus=8) for k, pair in enumerate(pairs)), here)
    jobs = jobs_of('schedulers = ["fcfs"]\n[workload]\njobs = 1\n', here)
    assert jobs["execution_time"].to_list() == [3_600.0]
    assert jobs["allocated_resources"].cast(pl.String).to_list() == ["0-1"]
    # Five such jobs use all ten nodes, and a sixth waits.
    six = jobs_of('schedulers = ["fcfs"]\n[workload]\njobs = 6\n', here)
    assert sorted(six["finish_time"]) == [3_600.0] * 5 + [7_200.0]


def test_the_past_of_a_site_has_the_load_of_jobs_that_did_not_complete(here: Path) -> None:
    """18 of 100 jobs ran for 2 minutes, the others for 10, one core each; the last came after 99 minutes."""
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    states = ["COMPLETED"] * 82 + [ENDS[k % 6] for k in range(18)]
    rows = (
        Row(str(k), "n01", k, k + (10 if state == "COMPLETED" else 2), state=state)
        for k, state in enumerate(states)
    )
    import_log(rows, here)
    engine = store.open_database(parse_address("site.db"))
    with store.reading(engine) as session:
        log = past_log(session, SiteReader(session, "ours").as_file(), None)
    engine.dispose()
    assert (len(log.jobs), log.span_s) == (100, 99 * 60)
    assert log.load == pytest.approx((82 * 600 + 18 * 120) / (672 * 99 * 60))
    assert sorted(log.jobs["run_s"].to_list()) == [120.0] * 18 + [600.0] * 82


def test_jobs_that_the_nodes_cannot_satisfy_any_more_are_refused_and_the_others_run(here: Path) -> None:
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    rows = [
        Row("1", "n01", 0, 60),
        Row("2", "g1", 0, 60, "cpu=1,node=1,gres/gpu=1", partition="gpu"),
        Row("3", "n01", 0, 60, "cpu=60,node=1", cpus=60),
    ]
    import_log(rows, here)
    (here / "new.conf").write_text(
        "NodeName=n[01-10] CPUs=48 RealMemory=256000\nPartitionName=batch Nodes=ALL\n"
    )
    result = sil("db", "import-slurm-conf", "new.conf")
    assert "2 job classes request what the nodes do not have" in " ".join(result.stderr.split())
    jobs = jobs_of('schedulers = ["easy"]\n[workload]\njobs = 3\norder = "cyclic"\n', here)
    assert jobs.select("job_class", "execution_time").rows() == [
        ("ann/sim/1 node with 1 core/batch", 3_600.0)
    ]
    (refusals,) = json.loads((here / "out-0" / "summary.json").read_text())["refusals"]
    assert refusals.startswith("easy: 2 of 3 jobs were refused")
    found = sil("db", "check")
    assert found.exit_code == 1
    assert len(found.stderr.strip().splitlines()) == 2
    assert "names the partition 'gpu', which does not exist; the site has batch" in found.stderr
    assert "requests 1 node with 60 cores, which the nodes in partition batch cannot" in found.stderr


def test_a_site_file_of_nodes_and_its_database_give_the_same_site(here: Path) -> None:
    (here / "nodes.toml").write_text(NODES)
    done("import", "nodes.toml")
    (here / "experiment.toml").write_text(
        'name = "trial"\nsite = "nodes.toml"\nschedulers = ["easy"]\n[workload]\njobs = 5\n'
    )
    experiment = read_experiment(here / "experiment.toml")
    of_file = SiteSource(experiment, here, None).snapshot(here / "one.db")
    of_database = SiteSource(experiment, here, parse_address("site.db")).snapshot(here / "two.db")
    assert of_file.digest() == of_database.digest()


# -- the commands ------------------------------------------------------------------------------------------


def test_importing_slurm_conf_prints_the_nodes_and_how_they_are_modelled(here: Path) -> None:
    printed = done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours").splitlines()
    assert printed == [
        "site.db: the site 'ours' is new: 11 nodes with 672 CPUs and 6 GPUs.",
        "Nodes: 10 with 64 CPUs, 256,000 MiB; 1 with 32 CPUs, 512,000 MiB, 4 a100 GPUs, 2 h100 GPUs.",
        "Jobs share nodes by CPUs, memory and GPUs; partitions, by number of nodes: batch (10), gpu (1, "
        "exclusive); the whole site has 5 matlab.",
    ]
    assert "the site 'ours' is updated: 11 nodes" in done("import-slurm-conf", "slurm.conf")
    text = done("export")
    done("import-slurm-conf", "slurm.conf")
    assert done("export") == text
    assert done("check").startswith("The statistics of the site 'ours' agree")


def test_an_error_in_slurm_conf_is_one_sentence_with_its_line_and_changes_nothing(here: Path) -> None:
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    text = done("export")
    (here / "bad.conf").write_text(CONF + "PartitionName=long Nodes=n[08-12]\n")
    sentence = the_sentence(sil("db", "import-slurm-conf", "bad.conf"))
    assert sentence == (
        "bad.conf, line 6: partition long lists node n11, which is not defined; add NodeName=n11"
    )
    assert done("export") == text


def listed() -> Any:
    return json.loads(done("show", "--json"))


def test_show_lists_partitions_site_resources_and_what_machines_have(here: Path) -> None:
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    shown = done("show")
    gpus = "4 a100, 2 h100"
    assert row_of("64-cores-256000-mb", shown) == [
        "64-cores-256000-mb",
        "",
        "10",
        "0",
        "0",
        "640",
        "2,560,000",
        "",
    ]
    assert row_of("32-cores-512000-mb-2-h100-4-a100", shown)[-3:] == ["32", "512,000", gpus]
    assert row_of("batch", shown) == [
        "batch",
        "10",
        "640",
        "2,560,000",
        "",
        "24",
        "1.5",
        "",
        "parts of nodes",
    ]
    assert row_of("gpu", shown) == ["gpu", "1", "32", "512,000", gpus, "", "", "1", "whole nodes"]
    assert row_of("matlab", shown) == ["matlab", "5"]
    facts = listed()
    batch, gpu = facts["partitions"]
    assert batch == {
        "partition": "batch",
        "nodes": 10,
        "cpus": 640,
        "memory_mb": 2_560_000.0,
        "gpus": {},
        "max_time_s": 86_400.0,
        "default_time_s": 5_400.0,
        "max_nodes": None,
        "exclusive": False,
    }
    assert (gpu["gpus"], gpu["exclusive"], gpu["max_nodes"]) == ({"a100": 4, "h100": 2}, True, 1)
    assert facts["site_resources"] == [{"resource": "matlab", "amount": 5}]
    assert [row["cpus"] for row in facts["machines"]] == [640, 32]


def test_memory_is_blank_where_no_machine_states_it(here: Path) -> None:
    (here / "slurm.conf").write_text("NodeName=n1 CPUs=4\nPartitionName=p Nodes=ALL\n")
    done("import-slurm-conf", "slurm.conf", "--db", "site.db#ours")
    assert row_of("p", done("show")) == ["p", "1", "4", "", "", "", "", "", "parts of nodes"]
    assert listed()["partitions"][0]["memory_mb"] is None


def test_other_sites_are_shown_without_columns_for_nodes(here: Path) -> None:
    (here / "tiny.toml").write_text(TINY_SITE)
    done("import", "tiny.toml")
    shown = done("show")
    assert not [word for word in ("CPUs", "GPUs", "Partitions", "Resources of the") if word in shown]
    facts = listed()
    assert facts.keys().isdisjoint({"partitions", "site_resources"})
    assert facts["machines"][0].keys() == {"machine_class", "architecture", "machines", "down", "notional"}
    assert done("check").startswith("The statistics of the site 'tiny' agree")
