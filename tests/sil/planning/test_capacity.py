"""What a site can carry, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sil.planning.load import Load, load
from sil.settings.experiment_file import WorkloadTable
from sil.settings.notional import NotionalTable
from sil.site.site_in_use import SiteInUse
from tests.builders import TINY_SITE
from tests.sil.site.test_notional import imagined

ONLY_SINGLE = TINY_SITE.replace("parallel_s = { pair = 6 }\n", "")


def workload(per_second: float, **mix: float) -> WorkloadTable:
    arrivals = {"kind": "poisson", "jobs_per_quantum": per_second, "quantum_s": 1.0}
    return WorkloadTable.model_validate({"jobs": 10, "arrivals": arrivals, "mix": mix})


def rho(table: WorkloadTable, in_use: SiteInUse) -> float:
    found = load(table, in_use)
    assert found is not None
    return found.rho


def test_capacity_is_the_work_that_machines_do_per_second(tmp_path: Path) -> None:
    # Two machines of 10 s and two of 30 s: 0.2 + 0.0667 short jobs in a second.
    in_use = imagined(tmp_path, site_text=ONLY_SINGLE)
    found = load(workload(0.4, short=1.0), in_use)
    assert found is not None
    assert found.rho == pytest.approx(0.4 / (2 / 10 + 2 / 30))
    assert found.is_too_much
    assert found.bottleneck == "short"


def test_jobs_are_assigned_by_comparative_advantage(tmp_path: Path) -> None:
    # Only short ones profit from the fast machines here, so the long ones go to the slow.
    site = ONLY_SINGLE.replace("slow = 300", "slow = 100")
    found = load(workload(0.1, short=0.8, long=0.2), imagined(tmp_path, site_text=site))
    assert found is not None
    # Short: 0.08 jobs/s x 10 s = 0.8 on two machines; long: 0.02 x 100 = 2 on two; balanced, rho x 4 machines
    # carry 2.8 s of work in a second, since long jobs may go to either kind.
    assert found.rho == pytest.approx(2.8 / 4)
    assert found.bottleneck == "long"


def test_a_cluster_occupies_all_its_machines_and_is_used_only_if_that_pays(tmp_path: Path) -> None:
    # The pair does a short job in 6 s, which is 12 machine seconds against 10: it carries nothing more.
    with_pair, without = imagined(tmp_path), imagined(tmp_path, site_text=ONLY_SINGLE)
    table = workload(0.1, short=1.0)
    assert rho(table, with_pair) == rho(table, without) == pytest.approx(0.375)
    super_linear = imagined(tmp_path, site_text=TINY_SITE.replace("pair = 6", "pair = 3"))
    assert rho(table, super_linear) == pytest.approx(0.1 / (1 / 3 + 2 / 30))


def test_more_machines_handle_more_load(tmp_path: Path) -> None:
    table = workload(0.4, short=1.0)
    before, after = rho(table, imagined(tmp_path)), rho(table, imagined(tmp_path, {"add": "4 x fast"}))
    assert after == pytest.approx(before * (2 / 10 + 2 / 30) / (6 / 10 + 2 / 30))


def test_jobs_that_all_arrive_at_the_start_cause_no_overload(tmp_path: Path) -> None:
    assert load(WorkloadTable(jobs=10), imagined(tmp_path)) is None


def test_a_class_without_a_machine_is_an_infinite_load(tmp_path: Path) -> None:
    only_fast = TINY_SITE.replace(", slow = 300", "")
    gone = NotionalTable(remove="2 x fast").model_dump(include={"remove"})
    found = load(workload(0.001, long=1.0), imagined(tmp_path, gone, site_text=only_fast))
    assert found == Load(float("inf"), "long")
