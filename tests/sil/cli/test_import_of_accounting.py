"""What `sil db import-sacct` says of Slurm's accounting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sil as sil_package
from site_db.jobs.sacct.columns import COLUMNS, COMMAND_IN_LINES
from site_db.jobs.sacct.rows import EXPECTED
from tests.commands import sil, succeeded

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

SACCT = """\
JobID|User|JobName|Partition|NodeList|Submit|Start|End|State|TimelimitRaw|ReqTRES
1|ann|sim|batch|n01|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|COMPLETED|90|cpu=1,node=1,license/abaqus=2
2|ann|sim|batch|n01|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T02:00:00|COMPLETED|90|
3|ann|sim|batch|n01|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00|COMPLETED||
"""


def test_the_import_names_undeclared_licences_and_time_limits_that_are_missing_or_exceeded(
    here: Path,
) -> None:
    """As a replay of the same log does."""
    Path("slurm.conf").write_text("NodeName=n01 CPUs=64\nPartitionName=batch Nodes=n01\n")
    Path("sacct.txt").write_text(SACCT)
    for command in (("init",), ("import-slurm-conf", "slurm.conf", "--db", "site.db#lab")):
        succeeded("db", *command)
    printed = " ".join(sil("db", "import-sacct", "sacct.txt").stderr.split())
    assert "1 job: abaqus is requested, which the cluster does not declare" in printed
    assert "1 job ran for longer than the time limit" in printed
    assert "1 job without a time limit" in printed


def test_the_recommended_columns_are_the_same_everywhere() -> None:
    document = Path(__file__).parents[3] / "docs" / "how-to" / "nodes.md"
    help_text = sil("db", "import-sacct", "--help").stdout
    for text in (document.read_text(), EXPECTED, help_text):
        assert COLUMNS in ",".join(re.findall(r"-o (\S+)", text))
    assert COLUMNS.replace(",", "|") in document.read_text()
    assert COMMAND_IN_LINES in "\n".join(line.removeprefix("  ") for line in help_text.splitlines())
    assert all(len(line) < 80 for line in COMMAND_IN_LINES.splitlines())
    assert "sil db import-sacct --help" in " ".join(sil("replay", "--help").stdout.split())


LOCAL = """JobID|State|Start|End|ElapsedRaw|NCPUS
1|COMPLETED|2026-10-25T02:30:00|2026-10-25T02:45:00|4500|4
2|COMPLETED|2026-10-25T02:50:00|2026-10-25T02:20:00|1800|4
"""


def test_local_times_and_dates_are_of_the_zone_that_is_named(here: Path) -> None:
    Path("slurm.conf").write_text("NodeName=n01 CPUs=64\n")
    Path("sacct.txt").write_text(LOCAL)
    log = sil_package.read_log("sacct.txt", nodes="slurm.conf", time_zone="Europe/Berlin")
    assert log.jobs.select("submit_s", "run_s").rows() == [(0.0, 4500.0), (1200.0, 1800.0)]
    assert len(log.between("2026-10-25T02:40")) == 1
    succeeded("db", "init")
    done = sil("db", "import-sacct", "sacct.txt", "--db", "site.db#lab", "--time-zone", "Europe/Berlin")
    assert "2 of 2 rows" in done.stdout
    assert "clock" not in done.stdout
    wrong = sil("db", "import-sacct", "sacct.txt", "--db", "site.db#lab", "--time-zone", "Berlin")
    assert wrong.exit_code == 2
    assert "the time zone 'Berlin' is not known here" in " ".join(wrong.stderr.split())
