"""Mistakes in experiment files: one sentence with the line of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import tiny_experiment
from tests.commands import sil, the_sentence

CLUSTERS = "[[clusters]]\nname = 'a'\nscheduler = 'fcfs'\n"
MEANS = "mean_time_between_failures_s = 100\nmean_time_to_repair_s = 1\n"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("[wrokload]", "line 11: unknown key 'wrokload'; did you mean 'workload'?"),
        ("jbos = 3", "line 11: unknown key 'jbos'; did you mean 'jobs'?"),
        ("mix = { vecmat = 1 }", "line 11: the workload names the job class 'vecmat'"),
        ("queues = { urgent = 1 }", "line 11: the workload names the queue 'urgent'"),
        ('[[outages]]\nmachine = "f9"\nfrom_s = 1\nto_s = 2', "line 12: the site 'tiny' has no machine 'f9'"),
        ('[[outages]]\nmachine = "f1"\nfrom_s = -1\nto_s = 2', "line 13: outages[0].from_s = -1: "),
        ('[[outages]]\nmachine = "f1"\nfrom_s = 5\nto_s = 2', "an outage ends after it begins"),
        ("[[outages]]\nfrom_s = 5\nto_s = 7", "either a machine or an interconnect"),
        ('arrivals = { kind = "poisson", jobs_per_quantum = -4 }', "jobs_per_quantum = -4: "),
        ('arrivals = { kind = "poison" }', "'poisson'"),
        ('[grid]\n"workload.jbos" = [1]', "line 12: grid: 'workload.jbos' is not a setting that can vary"),
        (
            '[grid]\n"workload.jobs" = [1, -3]',
            "line 12: grid: workload.jobs = -3: expected a number greater than or equal to 1",
        ),
        ('[grid]\nsite = ["a", "b"]', "line 12: grid: the nodes are the same at all points; 'site' cannot"),
        # several clusters
        (
            f"{CLUSTERS}[[clusters]]\nname = 'a'\nscheduler = 'fcfs'",
            "line 15: clusters have different names, ",
        ),
        (
            f"{CLUSTERS}[transfers]\nseconds = {{ b = {{ a = 1 }} }}",
            "line 15: transfers.seconds: 'b' is no cl",
        ),
        (
            f"{CLUSTERS}[transfers.data]\nshort = {{ at = 'b' }}",
            "line 15: transfers.data: 'b' is no cluster; ",
        ),
        ('[grid]\n"workload.jobs" = []', "grid.workload.jobs"),
        ("jobs = 3", "not valid TOML"),
        ("mix = { short = true }", "line 11: workload.mix.short = true: expected a number"),
        # failures
        (
            "[failures]\nmean_time_to_repair_s = 5",
            "line 11: failures: the failures of every machine by itself",
        ),
        (f"[failures.groups.a]\n{MEANS}", "line 11: failures.groups.a: give the machines that fail together"),
        (f"[failures.groups.a]\nmachines = ['f9']\n{MEANS}", "line 12: the site 'tiny' has no machine 'f9'"),
        (
            f"[failures.groups.a]\nmachines = ['f[1']\n{MEANS}",
            "line 12: failures.groups.a.machines: 'f[1' is",
        ),
        ("[failures.slow_machines.a]\nfactor = 2", "failures.slow_machines.a: give either machines"),
        ("[failures.slow_machines.a]\nshare = 1\nfactor = 0", "failures.slow_machines.a.factor = 0: "),
        ("[failures.jobs.a]\nafter = 0.1", "failures.jobs.a: give the share of the jobs"),
        (
            "[failures.jobs.a]\njob_classes = ['x']",
            "line 12: the site 'tiny' has no job class 'x'; it has short",
        ),
        (
            "[failures]\n[grid]\n'max_batch_requeue' = [3]",
            "max_batch_requeue has no effect where no job fails",
        ),
        ("[failures.jobs.a]\nshare = 1.5", "failures.jobs.a.share = 1.5: "),
        # messages, crashes, clock_jumps
        ("[messages]\nlost_share = 1.0", "line 12: messages.lost_share = 1.0"),
        ("[messages]\nlost_shares = 0.1", "line 12: unknown key 'lost_shares'; did you mean 'lost_share'"),
        ("[messages]\nretry_s = 0", "line 12: messages.retry_s = 0"),
        ("[messages]\npings = 0", "line 12: messages.pings = 0"),
        (
            "[[messages.partitions]]\nmachines = ['f9']\nfrom_s = 0\nto_s = 9",
            "line 12: the site 'tiny' has no machine 'f9'",
        ),
        (
            "[[messages.partitions]]\nmachines = ['f1']\nfrom_s = 9\nto_s = 9",
            "messages.partitions[0]: to_s is 9, which is not after from_s, 9",
        ),
        ("[crashes]\ndown_s = 5", "line 11: the key 'crashes.mean_time_between_crashes_s' is missing"),
        ("[[clock_jumps]]\nat_s = 5", "line 11: the key 'clock_jumps[0].offset_s' is missing"),
        ("[[clock_jumps]]\nat_s = 5\noffset_s = inf", "line 13: clock_jumps[0].offset_s = inf"),
        (
            "[guard]\ndecision_cost = 'fixed(seconds=1)'\n[crashes]\nmean_time_between_crashes_s = 60",
            "line 12: a manager that may crash decides again after a restart, in no simulated time",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_line(more: str, expected: str, here: Path) -> None:
    told = " ".join(the_sentence(sil("run", tiny_experiment(here, more), "--out", "out")).split())
    assert expected in told
    assert "experiment.toml" in told
