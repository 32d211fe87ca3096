"""The `sil db` commands print the documented output, exit codes and error messages."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from site_db.store import Address
from tests.builders import TINY_SITE
from tests.commands import sil, succeeded, the_sentence
from tests.postgres import Server

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

SACCT = """JobID|User|JobName|Partition|AllocCPUS|NodeList|Submit|Start|End|Elapsed|State
1|ann|sim|batch|4|n1|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:11:00|00:10:00|COMPLETED
2|ann|sim|batch|4|n2|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:21:00|00:20:00|COMPLETED
3_1|bob|mpi|batch|16|n[1-4]|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:05:00|00:05:00|COMPLETED
4|bob|mpi|batch|16|n[1-4]|2026-01-01T00:00:00|2026-01-01T01:00:00|2026-01-01T01:05:00|00:05:00|CANCELLED by 7
5|bob|mpi|batch|16||2026-01-01T00:00:00|Unknown|Unknown|00:00:00|PENDING
"""
SWF = """; UnixStartTime: 1000000000
; MaxProcs: 8
1 0 5 100 4 -1 -1 4 200 -1 1 3 1 7 1 2 -1 -1
2 10 5 50 2 -1 -1 2 200 -1 0 3 1 7 1 2 -1 -1
"""


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with a site file, and no address in the environment."""
    monkeypatch.delenv("SIL_DATABASE", raising=False)
    monkeypatch.setenv("COLUMNS", "1000")
    (here / "tiny.toml").write_text(TINY_SITE)
    return here


def recorded(*rows: str, more: str = "") -> str:
    """Record the jobs of a CSV file."""
    head = f"job_class,resource,started_unix_s,run_time_s{more}\n"
    Path("mine.csv").write_text(head + "".join(f"{row}\n" for row in rows))
    return done("history", "--import", "mine.csv")


def done(*arguments: str | Path) -> str:
    """The output of a command that must succeed."""
    result = succeeded("db", *arguments)
    return result.stdout


def refused(*arguments: str | Path) -> str:
    return the_sentence(sil("db", *arguments))


@pytest.fixture
def tiny(here: Path) -> Path:
    done("init")
    done("import", "tiny.toml")
    return here


def test_a_site_round_trips_through_the_database(tiny: Path) -> None:
    text = done("export")
    (tiny / "again.toml").write_text(text)
    assert "is updated from its file" in done("import", "again.toml")
    assert done("export") == text
    done("export", "--out", "third.toml")
    assert (tiny / "third.toml").read_text() == text


def test_a_built_in_site_is_imported_by_name(here: Path) -> None:
    done("init", "--db", "hcs.db")
    assert "142 machines, 18 clusters" in done("import", "hcs-2001", "--db", "hcs.db")


def test_the_database_is_given_by_option_or_environment_or_defaults_to_site_db(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done("init")
    done("init", "--db", "sqlite:///other.db")
    monkeypatch.setenv("SIL_DATABASE", "third.db")
    done("init")
    assert {path.name for path in here.glob("*.db")} == {"site.db", "other.db", "third.db"}


def test_show_prints_machines_clusters_states_and_expected_times(tiny: Path) -> None:
    shown = done("show")
    for what in ("Machines of tiny", "Clusters", "Expected times", "staff"):
        assert what in shown


def test_show_lists_what_all_nodes_have_before_long_names_of_classes_in_short(here: Path) -> None:
    Path("nodes.conf").write_text(
        "NodeName=n[1-2] CPUs=8 RealMemory=1000\nPartitionName=a Nodes=n1\nPartitionName=b Nodes=ALL\n"
    )
    name = "x" * 70
    Path("sacct.txt").write_text(
        "JobID|User|Partition|JobName|Start|End|State|ReqTRES\n"
        f"1|ann|b|{name}|2026-03-02T08:00:00|2026-03-02T09:00:00|COMPLETED|cpu=1,node=1\n"
    )
    done("init")
    done("import-slurm-conf", "nodes.conf", "--db", "site.db#lab")
    done("import-sacct", "sacct.txt", "--db", "site.db#lab")
    shown = done("show", "--db", "site.db#lab")
    assert re.search(r"all nodes +│ +2 │ +16 │ +2,000", shown)
    assert shown.index("all nodes") < shown.index("xxx... ")
    assert name not in shown
    assert name in done("show", "--json", "--db", "site.db#lab")


def test_show_lists_the_sites_of_a_database_and_a_named_one(tiny: Path) -> None:
    done("import", "hcs-2001")
    shown = done("show")
    assert "hcs-2001" in shown
    assert "tiny" in shown
    assert "ultra2-300" in done("show", "--db", "site.db#hcs-2001")
    assert "which site" in refused("history")


def test_show_prints_a_job_class_by_machine(tiny: Path) -> None:
    recorded("short,f1,0,10", "short,pair,0,40", "short,s1,0,20", "long,f1,0,99")
    shown = done("show", "--job-class", "short")
    assert "own runs" in shown
    (everywhere,) = [line for line in shown.splitlines() if "everywhere" in line]
    n, median, _ = everywhere.split()[-6::2]
    assert (n, float(median)) == ("3", pytest.approx(20.0, rel=0.01))
    assert "has no job class 'play'; it has short, long" in refused("show", "--job-class", "play")


def test_a_state_is_recorded_and_shown(tiny: Path) -> None:
    done("state", "f1", "down")
    assert "of which down" in done("show")
    with sqlite3.connect("site.db") as connection:
        assert connection.execute("SELECT up FROM machine_state").fetchall() == [(0,)]
        since = connection.execute("SELECT since_unix_s FROM machine_state").fetchone()[0]
    assert abs(since - time.time()) < 60
    assert "has no machine or interconnect 'm9'" in refused("state", "m9", "up")
    assert "'f1' is a machine, which carries no traffic" in refused("state", "f1", "up", "--traffic", "5")
    assert "'lan' is an interconnect, which has no local load" in refused(
        "state", "lan", "up", "--local-load", "1"
    )


def listed(*arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    listings: dict[str, Any] = json.loads(done(*arguments, "--json"))
    return listings


def test_show_prints_the_same_facts_as_json(tiny: Path) -> None:
    done("state", "f1", "down", "--local-load", "0.5")
    shown = listed("show")
    assert sum(row["down"] for row in shown["machines"]) == 1
    (pair,) = [row for row in shown["clusters"] if row["cluster"] == "pair"]
    assert (pair["members"], pair["available"], pair["accepts_parallel"]) == (2, 1, False)
    assert pair["interconnects"] == [{"name": "lan", "up": True}]
    (f1,) = shown["states"]
    assert (f1["name"], f1["up"], f1["local_load"], f1["traffic_mbit_per_s"]) == ("f1", False, 0.5, None)
    assert {row["rule"] for row in shown["expected_times"]} == {"staff"}
    assert shown["predictions"] == shown["in_isolation"] == []
    done("import", "hcs-2001")
    assert [row["site"] for row in listed("show")["sites"]] == ["hcs-2001", "tiny"]


def test_runs_and_one_job_class_are_printed_as_json(tiny: Path) -> None:
    recorded("short,f1,1700000000,12.5", "short,pair,1700000100,14")
    runs = listed("history", "--last", "1")["runs"]
    assert [(run["number"], run["resource"], run["members"], run["run_time_s"]) for run in runs] == [
        (2, "pair", 2, 14.0)
    ]
    assert (runs[0]["source_kind"], runs[0]["started_s"]) == ("file", 1700000100.0)
    shown = listed("show", "--job-class", "short")
    (f1,) = [row for row in shown["expected_times"] if row["resource"] == "f1"]
    assert (f1["own_runs"], f1["median_s"]) == (1, pytest.approx(12.5, rel=0.01))
    assert shown["expected_times_total"]["own_runs"] == 2


def row_of(name: str, shown: str) -> list[str]:
    """The cells of the last row that begins with a name."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.splitlines() if "│" in line]
    return [row for row in rows if row[0] == name][-1]


def test_measurements_are_shown_with_the_reason_a_cluster_is_closed(tiny: Path) -> None:
    assert "States" not in done("show")
    done("state", "f1", "up", "--local-load", "0.5")
    done("state", "f2", "down")
    done("state", "f2", "up")
    done("state", "lan", "down", "--traffic", "42", "--committed", "60")
    shown = done("show")
    assert row_of("f1", shown)[3:] == ["0.5", "", ""]
    assert row_of("lan", shown)[1] == "down"
    assert row_of("lan", shown)[3:] == ["", "42", "60"]
    assert not [line for line in shown.splitlines() if line.startswith("│ f2 ")]
    assert "no, its members are not connected" in shown


def test_a_csv_file_of_runs_is_recorded_once_and_shown(tiny: Path) -> None:
    rows = ("short,f1,1700000000,12.5,ann", "short,f1,1700000100,14,bob")
    assert "2 jobs of mine.csv recorded" in recorded(*rows, more=",user")
    shown = done("history")
    assert "2023-11-14 22:13:20" in shown
    assert "file: mine.csv" in shown
    assert "has the jobs of this file already" in refused("history", "--import", "mine.csv")
    assert "agree with its history of 2 runs" in done("check")


def test_old_runs_are_pruned_and_the_statistics_still_agree(tiny: Path) -> None:
    recorded(*(f"short,f1,{k},{10 + k}" for k in range(20)))
    assert "15 runs deleted, 5 kept" in done("prune", "--keep", "5")
    assert "5 runs (and 15 that were pruned)" in done("check")


def test_modified_statistics_are_detected(tiny: Path) -> None:
    recorded("short,f1,0,10")
    with sqlite3.connect("site.db") as connection:
        connection.execute("UPDATE execution_statistics SET mean_s = 11")
    result = sil("db", "check")
    assert result.exit_code == 1
    assert "do not agree with its history" in result.stderr


def test_a_slurm_log_creates_a_site_of_nodes_usable_in_experiments(here: Path) -> None:
    (here / "log.txt").write_text(SACCT)
    done("init")
    result = sil("db", "import-sacct", "log.txt", "--db", "site.db#ours")
    assert "4 of 5 rows" in result.stdout
    assert "New at the site 'ours': 1 machine class, 4 machines, 2 job classes." in result.stdout
    assert "Refused: 1 (the job has not ended; line 6)" in result.stdout
    assert "the sizes and partitions of 4 nodes are inferred" in " ".join(result.stderr.split())
    shown = done("show")
    assert "ann/sim/1 node with 4 CPUs/batch" in shown
    assert "900.0" in shown  # the mean of ten and twenty minutes
    assert "agree with its history of 3 runs" in done("check")  # the cancelled one is load, but no lesson
    assert "has the jobs of this file already" in refused("import-sacct", "log.txt")
    arguments = ("--site", "site.db", "--replications", "1", "--scheduler", "easy")
    succeeded("run", "light-to-heavy", *arguments)


@pytest.fixture
def ours(here: Path) -> Path:
    """A site of machines in the database, and accounting beside it."""
    (here / "ours.toml").write_text(
        """
        name = "ours"
        machine_classes = [{name = "batch"}]
        machines = [{names = ["n0"], machine_class = "batch"}]
        job_classes = [{name = "any", sequential_s = {batch = 1.0}}]
        """
    )
    (here / "log.txt").write_text(SACCT)
    done("init")
    done("import", "ours.toml")
    return here


def test_a_slurm_log_at_a_site_of_machines_adds_machines_and_says_that_jobs_run_alone(ours: Path) -> None:
    result = sil("db", "import-sacct", "log.txt")
    assert "4 of 5 rows" in result.stdout
    assert "New at the site 'ours': 4 machines, 1 cluster, 2 job classes." in result.stdout
    note = " ".join(result.stderr.split())
    assert "each job is assumed to have its machines to itself" in note
    assert "sil db import-slurm-conf" in note
    assert "agree with its history of 3 runs" in done("check")
    succeeded("run", "light-to-heavy", "--site", "site.db", "--replications", "1", "--scheduler", "pjs")


def test_a_job_without_nodes_counts_for_its_machine_class_despite_a_cluster_of_that_name(ours: Path) -> None:
    header, *rows = SACCT.splitlines()
    (ours / "log.txt").write_text("\n".join([header, *rows[:3]]))
    without = [
        row.replace("|n1|", "||").replace("|n2|", "||").replace("|n[1-4]|", "|None assigned|") for row in rows
    ]
    (ours / "without.txt").write_text("\n".join([header, *(f"9{row}" for row in without[:3])]))
    done("import-sacct", "log.txt")
    done("import-sacct", "without.txt")
    with sqlite3.connect("site.db") as connection:
        query = "SELECT machine_class_id, machine_id, cluster_id FROM execution_history ORDER BY number"
        runs = connection.execute(query).fetchall()
    assert runs == [(1, 2, None), (1, 3, None), (None, None, 1), *[(1, None, None)] * 3]


def test_a_cluster_that_grows_by_a_log_is_reported(ours: Path) -> None:
    header, *rows = SACCT.splitlines()
    grown = rows[2].replace("3_1|", "9|").replace("[1-4]", "[3-6]")
    (ours / "more.txt").write_text(f"{header}\n{grown}")
    assert "instead of" not in sil("db", "import-sacct", "log.txt").stderr
    printed = " ".join(sil("db", "import-sacct", "more.txt").stderr.split())
    assert "the cluster 'batch' has 6 members now, instead of 4: runs of the partition" in printed


def test_a_partition_named_like_a_node_gets_a_cluster_with_another_name(ours: Path) -> None:
    (ours / "log.txt").write_text(SACCT.replace("|batch|", "|n1|"))
    assert "4 of 5 rows" in done("import-sacct", "log.txt")
    assert "partition n1" in done("show")


def test_a_log_without_usable_jobs_creates_no_site(here: Path) -> None:
    header, *rows = SACCT.splitlines()
    (here / "log.txt").write_text(
        "\n".join([header, rows[4], rows[3].replace("|2026-01-01T01:05:00|00:05:00|", "|Unknown||")])
    )
    done("init")
    assert refused("import-sacct", "log.txt", "--db", "site.db#ours") == (
        "log.txt: none of its rows can be used: "
        "1 (the job has not ended; line 2); 1 (the start or the end is unknown; line 3)"
    )
    assert "ours" not in done("show")


def test_a_csv_file_without_jobs_is_rejected(tiny: Path) -> None:
    (tiny / "mine.csv").write_text("job_class,resource,started_unix_s,run_time_s\n")
    assert refused("history", "--import", "mine.csv") == "mine.csv: the file has a header, but no jobs"


def test_an_unknown_resource_in_a_csv_file_is_reported_with_file_and_job(tiny: Path) -> None:
    (tiny / "mine.csv").write_text("job_class,resource,started_unix_s,run_time_s\nshort,m9,0,10\n")
    assert refused("history", "--import", "mine.csv") == (
        "mine.csv: job 2: the site 'tiny' has no machine or cluster 'm9'"
    )


def test_a_job_in_two_logs_is_recorded_once(here: Path) -> None:
    header, *rows = SACCT.splitlines()
    requeued = (
        "1|ann|sim|batch|4|n1|2026-01-01T00:00:00|2026-01-02T00:01:00|2026-01-02T00:11:00|00:10:00|COMPLETED"
    )
    (here / "first.txt").write_text("\n".join([header, *rows[:2]]))
    (here / "second.txt").write_text("\n".join([header, *rows[1:3], requeued, requeued]))
    done("init")
    assert "2 of 2 rows" in done("import-sacct", "first.txt", "--db", "site.db#ours")
    printed = done("import-sacct", "second.txt")
    assert "2 of 4 rows" in printed
    assert "Left out: 2 (recorded before)" in printed
    assert "agree with its history of 4 runs" in done("check")


def test_an_archive_log_is_recorded_for_the_machine_class_of_its_partition(here: Path) -> None:
    (here / "log.swf").write_text(SWF)
    done("init")
    printed = done("import-swf", "log.swf", "--db", "site.db#archive")
    assert "1 of 2 rows" in printed
    assert "Refused: 1 (the job failed; line 4)" in printed
    (expected,) = [line for line in done("show").splitlines() if "partition-2 (0)" in line]
    assert "100.0" in expected
    history = done("history")
    assert "user-3/program-7/4" in history
    assert "partition-2" in history
    done("export", "--out", "archive.toml")
    with (here / "archive.toml").open("a") as file:
        file.write('\n[[machines]]\nnames = ["p[1-4]"]\nmachine_class = "partition-2"\n')
    assert "4 machines" in done("import", "archive.toml")
    succeeded("run", "light-to-heavy", "--site", "site.db", "--replications", "1", "--scheduler", "mct")
    assert "2001-09-09" in history


def test_a_log_from_the_future_is_rejected_and_not_recorded(here: Path) -> None:
    later = datetime.fromtimestamp(time.time() + 10 * 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    line = f"9|ann|sim|batch|4|n1|2026-01-01T00:00:00|2026-01-01T00:01:00|{later}||COMPLETED\n"
    (here / "log.txt").write_text(SACCT + line)
    done("init")
    assert "job 9 ended at" in refused("import-sacct", "log.txt", "--db", "site.db#ours")
    assert "ours" not in done("show")


def test_a_current_database_needs_no_upgrade(here: Path) -> None:
    done("init")
    assert "was up to date" in done("upgrade")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show",), "site.db: there is no such file; `sil db init` makes a database"),
        (("init", "--db", "tiny.toml"), "tiny.toml: the file already exists"),
        (("show", "--db", "tiny.toml"), "tiny.toml: this is not an SQLite database"),
        (("show", "--db", "mysql://x/y"), "is not a supported database address"),
        (("show", "--db", "postgresql://nobody@localhost:1/none"), "the server does not answer"),
        (("init", "--db", "no/such/folder/site.db"), "its folder must exist"),
        (("import", "nowhere.toml"), "there is no such file"),
    ],
)
def test_a_database_error_is_reported_in_one_sentence(
    arguments: tuple[str, ...], sentence: str, here: Path
) -> None:
    assert sentence in refused(*arguments)


def test_an_inconsistent_site_file_is_rejected_with_its_line(here: Path) -> None:
    done("init")
    (here / "tiny.toml").write_text(TINY_SITE.replace('machine_class = "slow"', 'machine_class = "none"'))
    assert "which does not exist" in refused("import", "tiny.toml")


def test_all_database_commands_work_on_a_server(here: Path, server: Server) -> None:
    address: Address = server.new_database()
    url = address.url.render_as_string(hide_password=False)
    done("init", "--db", url)
    done("import", "tiny.toml", "--db", url)
    (here / "log.txt").write_text(SACCT)
    done("import-sacct", "log.txt", "--db", f"{url}#ours")
    assert "ours" in done("show", "--db", url)
    assert "ann/sim/1 node with 4 CPUs/batch" in done("show", "--db", f"{url}#ours")
    assert "agree" in done("check", "--db", f"{url}#ours")
    server.drop(address)
