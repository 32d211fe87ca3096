"""What a line of accounting says of the options with which a job was submitted."""

from __future__ import annotations

from typing import Any

import pytest

from sil.rehearsal.submissions import submitted

LINES: list[tuple[str, dict[str, Any]]] = [
    ("sbatch -d afterok:12:13 --nice=50 -n4 job.sh --nice 7", {"dependency": "afterok:12:13", "nice": 50}),
    ("sbatch --dependency singleton job.sh", {"dependency": "singleton"}),
    ("srun -N2 --exclusive -L matlab:2 hostname", {"exclusive": True, "licenses": "matlab:2"}),
    ("/usr/bin/sbatch -w 'n[1-2],n7' -xn9 job.sh", {"nodes": "n[1-2],n7", "excluded_nodes": "n9"}),
    ("sbatch -Hn 4 --nice --contiguous job.sh", {"nice": 100, "contiguous": True}),
    (
        "sbatch --no-requeue --wckey=w --time-min=1-0 x",
        {"requeue": False, "wckey": "w", "least_time_min": 1440},
    ),
    ("sbatch --exclusive=user --spread-job job.sh", {"others": ("--exclusive=user", "--spread-job")}),
    ("sbatch --wrap 'sleep 1' --comment '--nice=7'", {}),
    ("sbatch -J 'a quote that is not closed", {}),
    ("sbatch", {}),
    ("", {}),
]


@pytest.mark.parametrize(("line", "options"), LINES)
def test_options_end_at_the_script_and_values_are_not_options(line: str, options: dict[str, Any]) -> None:
    assert submitted(line).options == options


def test_the_limit_of_an_array_is_read_and_options_that_are_not_modelled_are_named() -> None:
    found = submitted("sbatch -a 1-100:2%4 --switches=1@10 --deadline=now+1hour job.sh")
    assert (found.at_once, found.left_out) == (4, {"deadline"})
    assert found.options == {"others": ("--switches=1@10",)}
    assert submitted("sbatch --array=1-100 job.sh").at_once is None
