"""The papers' studies: what is known of their outcome, and how verdicts come about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from sil.cli.app import app
from sil.outcome.statistics import Interval, Sample
from sil.studies.cisne import coscheduling, deviations, experiments, hybrid
from sil.studies.collins_george import cs1, cs2, cs3, cs4, future_work
from sil.studies.collins_george.site_runs import SiteCase, perturbed, run_all
from sil.studies.ledger import COLUMNS, Caveat, Claim, Findings, Statement, judged_on_sites
from sil.studies.rules import (
    Estimate,
    GridSamples,
    RuleOutcome,
    StudyFailed,
    Verdict,
    above,
    all_or_partly_positive,
    all_positive,
    below,
    exactly,
    most_positive,
    positive,
    signed,
    text,
    within,
)
from sil.workers.executor import Inline, Interrupted
from sil.workers.processes import Processes
from sil.workers.runner import Runner
from sil.workers.store import Store

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.fixture(scope="module", autouse=True)
def fewer_sizes() -> Iterator[None]:
    """The claims of the second study are held against multiples of five; the tests run only these."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(cs2, "SIZES", cs2.EQUAL)
        yield


@pytest.fixture(scope="module")
def second() -> Findings:
    return cs2.study(2, Runner(Inline()))


# -- verdicts ----------------------------------------------------------------------------------------------


def case(mean: float, half_width: float) -> Estimate:
    """Of three replications."""
    deviation = np.array([-1.0, 0.0, 1.0])
    return Estimate(mean + deviation * half_width / (Estimate(deviation).interval().half_width or 1.0))


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (case(1.0, 0.5), Verdict.HOLDS),
        (case(1.0, 1.5), Verdict.INCONCLUSIVE),
        (case(-1.0, 0.5), Verdict.DOES_NOT_HOLD),
        (exactly(0.0), Verdict.DOES_NOT_HOLD),
        (exactly(1e-12), Verdict.HOLDS),
    ],
)
def test_a_verdict_follows_from_the_interval(found: Estimate, verdict: Verdict) -> None:
    assert positive(found) is verdict


def test_a_verdict_on_several_intervals_fails_if_one_is_significantly_not_positive() -> None:
    clearly_positive, uncertain, clearly_negative = case(1.0, 0.5), case(1.0, 2.0), case(-1.0, 0.2)
    assert all_positive([clearly_positive, clearly_positive]).verdict is Verdict.HOLDS
    assert all_positive([clearly_positive, uncertain]).verdict is Verdict.INCONCLUSIVE
    assert all_positive([clearly_positive, uncertain, clearly_negative]).verdict is Verdict.DOES_NOT_HOLD


def test_verdict_helpers_shift_and_format_intervals() -> None:
    assert all_positive([exactly(0.1)]).verdict is Verdict.HOLDS
    assert all_positive([exactly(0.0)]).verdict is Verdict.DOES_NOT_HOLD
    assert above(exactly(5.0), 4.0).mean == 1.0
    assert below(exactly(5.0), 4.0).mean == -1.0
    assert text(case(1234.56, 7.0), 1, "s") == "1,234.6 ± 7.0 s"
    assert text(exactly(1.0), 2) == "1.00"
    assert signed(Interval(-0.01234, 0.5), "s") == "-0.0123 ± 0.5 s"
    assert signed(Interval(12345.6, None)) == "+12,346"


def test_the_distance_is_that_of_the_case_which_decides() -> None:
    cases = [case(3.0, 0.1), case(2.0, 0.1), case(-1.0, 0.1)]
    assert all_positive(cases, "s") == RuleOutcome(Verdict.DOES_NOT_HOLD, "-1 ± 0.178 s")
    assert most_positive(cases, "s").distance.startswith("+2 ±")
    unsure = [case(5.0, 0.1), case(4.0, 9.0), case(3.0, 0.1)]
    assert most_positive(unsure, "s").distance.startswith("+3 ±"), "4 ± 9 decides nothing"
    assert all_positive(within(exactly(40.0), 25, 35), "jobs").distance == "-5 jobs"


def test_more_than_half_of_the_cases_are_not_yet_most() -> None:
    yes, no = case(1.0, 0.1), case(-1.0, 0.1)
    assert most_positive([yes] * 8 + [no] * 7).verdict is Verdict.DOES_NOT_HOLD
    assert most_positive([yes] * 10 + [no] * 5).verdict is Verdict.HOLDS


CALIBRATED = Caveat(Verdict.CALIBRATION, "the times")
OF_THE_SITE = Caveat(Verdict.DEPENDS_ON_SITE, "3 of 20")


def claim(found: float, caveat: Caveat | None = None, **other_inputs: float) -> Claim:
    judged, *inputs = (all_positive([exactly(x)]) for x in (found, *other_inputs.values()))
    statement = Statement("a claim", "words", "a reading", "a rule", "none", caveat)
    return Claim(statement, "a result", judged, inputs=dict(zip(other_inputs, inputs, strict=True)))


def test_a_rule_that_an_input_was_chosen_to_meet_is_evidence_only_if_it_is_not_met() -> None:
    assert claim(1.0).verdict is Verdict.HOLDS
    assert claim(1.0, CALIBRATED).verdict is Verdict.CALIBRATION
    assert claim(-1.0, CALIBRATED).verdict is Verdict.DOES_NOT_HOLD


def test_a_verdict_that_another_admissible_input_does_not_confirm_depends_on_the_input() -> None:
    assert claim(1.0, no_limit=2.0).verdict is Verdict.HOLDS
    assert claim(1.0, no_limit=-2.0).verdict is Verdict.DEPENDS_ON_INPUT
    assert claim(-1.0, no_limit=2.0).verdict is Verdict.DEPENDS_ON_INPUT


def test_perturbed_sites_are_counted_by_the_rule_whatever_was_calibrated() -> None:
    here = [claim(1.0, CALIBRATED), claim(-2.0)]
    elsewhere = [[claim(1.0), claim(1.0)], [claim(1.0), claim(-1.0)], [claim(-1.0), claim(-1.0)]]
    found = judged_on_sites([here, *elsewhere].__getitem__, 3)
    assert [c.as_row()["sites"] for c in found] == [
        "holds by the rule on 2 of 3 perturbed sites",
        "does not hold by the rule on 2 of 3 perturbed sites",
    ]
    assert [c.verdict for c in found] == [Verdict.CALIBRATION, Verdict.DEPENDS_ON_SITE]
    assert [c.as_row()["sites"] for c in judged_on_sites([here].__getitem__, 0)] == ["", ""]


def test_a_verdict_needs_three_quarters_of_the_perturbed_sites() -> None:
    def on(same: int, caveat: Caveat | None = None) -> Verdict:
        (found,) = judged_on_sites(
            lambda k: [claim(1.0 if k <= same else -1.0, caveat if k == 0 else None)], 4
        )
        return found.verdict

    assert [on(3), on(2)] == [Verdict.HOLDS, Verdict.DEPENDS_ON_SITE]
    assert claim(1.0, OF_THE_SITE).verdict is Verdict.DEPENDS_ON_SITE, "without sites, those of the past"
    assert on(4, OF_THE_SITE) is Verdict.HOLDS, "with sites, these decide"


def test_every_claim_states_words_reading_rule_tolerance_and_distance(second: Findings) -> None:
    for found in second.claims:
        row = found.as_row()
        for column in ("paper", "reading", "rule", "tolerance", "ours", "distance"):
            assert row[column], (column, found.claim)


def test_what_the_site_was_searched_to_meet_is_a_calibration(second: Findings) -> None:
    verdicts = [found.verdict for found in second.claims]
    assert [k for k, verdict in enumerate(verdicts, start=1) if verdict is Verdict.CALIBRATION] == [2, 3, 5]
    assert verdicts[0] is Verdict.BY_CONSTRUCTION, "PJS returns the schedule of SJS unless another is better"


def test_a_saving_of_more_than_half_is_not_nearly_half(second: Findings) -> None:
    assert cs2.STUDY.judged("nearly-half", cs2.nearly_half(54.7)).verdict is Verdict.DOES_NOT_HOLD
    assert second.claims[1].beside.keys() == {"any number of jobs"}


# -- studies -----------------------------------------------------------------------------------------------


def test_the_second_study_equals_independent_prototypes(second: Findings) -> None:
    table = second.tables["Saving against SJS (%)"]
    saving = {row["jobs"]: row for row in table.iter_rows(named=True)}
    assert {n: saving[n]["pjs"] for n in (5, 30, 100)} == {5: 47.4, 30: 23.1, 100: 0.0}
    tried_on = [round(saving[n]["pjs_try_next"]) for n in (30, 40, 50, 70, 100)]
    assert tried_on == [32, 26, 22, 16, 9]
    assert [c.ours for c in second.claims if "10,000" in c.claim] == ["10,079 s"]


def test_with_the_optimal_step_pjs_is_never_worse_than_the_single_machine_optimum(second: Findings) -> None:
    for row in second.tables["Saving against SJS (%)"].iter_rows(named=True):
        assert row["pjs_optimal"] >= row["optimal"], row


def test_high_priority_jobs_of_the_third_study_are_all_jobs_of_the_second() -> None:
    """Their curve is no evidence, since the execution times were searched for that of the second study."""
    high = run_all([cs3._case(200, "10/10/80", name) for name in cs3.SCHEDULERS], Runner(Inline()))
    alone = run_all([cs2._case(20, name) for name in cs3.SCHEDULERS], Runner(Inline()))
    assert high.filter(queue="high")["sum_s"].to_list() == alone["sum_s"].to_list()


def test_high_priority_jobs_gain_by_pjs_if_they_are_rare() -> None:
    cases = [cs3._case(100, "10/10/80", name) for name in cs3.SCHEDULERS]
    found = run_all(cases, Runner(Inline())).filter(pl.col("queue") == "high")
    of = dict(found.select("scheduler", "sum_s").iter_rows())
    assert of["pjs"] < 0.7 * of["sjs"]


@pytest.mark.long
def test_rows_do_not_depend_on_the_number_of_workers() -> None:
    cases = [
        SiteCase({"distribution": d}, cs4.preemptive_settings(d, 32), "pjs", seed)
        for d in ("none", "10/10/80")
        for seed in (0, 1)
    ]
    with Processes(2) as executor:
        assert run_all(cases, Runner(Inline())).equals(run_all(cases, Runner(executor)))


def test_a_misbehaving_scheduler_ends_the_study_with_one_sentence() -> None:
    case = SiteCase({"n": 3}, {"workload": {"jobs": 3}}, "tests.faulty:Raises")
    with pytest.raises(StudyFailed, match="Raises broke the rule raises-nothing"):
        run_all([case], Runner(Inline()))


def test_the_first_study_is_judged_by_the_pjs_that_ships_with_the_textbooks_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cs1, "GRID", (5, 10))
    monkeypatch.setattr(cs1, "PJS_JOBS", (5, 20))
    found = cs1.study(3, Runner(Inline()))
    assert len(found.claims) == 7
    table = found.tables["Mean decision of PJS (ms), over all numbers of jobs"]
    assert len(table) == len(cs1.SHARES)
    by_paper, shipped = table[cs1.TEXTBOOK].to_list(), table[cs1.SHIPPED].to_list()
    assert min(by_paper) > 0
    assert min(shipped) > 0
    for found_claim in found.claims:
        assert found_claim.ours.startswith(f"{cs1.SHIPPED}: "), found_claim.claim
        assert cs1.TEXTBOOK in found_claim.beside
        assert "±" in found_claim.judged.distance, "wall times are never free of chance"
    # With 0 % in parallel the textbook's PJS is one SJS; with all in parallel it is several.
    assert by_paper[-1] > 1.2 * by_paper[0]


@pytest.mark.long
def test_the_fourth_study_equals_independent_prototypes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, fewer in (("RATES", (1, 32)), ("LOOKS", 1), ("LOW", (1,)), ("HIGH", (32,))):
        monkeypatch.setattr(cs4, name, fewer)
    found = cs4.study(2, Runner(Inline()))
    times = {
        (r["distribution"], r["priority"]): r for r in found.tables["Mean job time (s)"].iter_rows(named=True)
    }
    assert times["10/10/80", "high"]["1"] == pytest.approx(105, abs=25)
    assert times["10/10/80", "high"]["32"] == pytest.approx(156, abs=30)
    assert times["10/10/80", "low"]["32"] == pytest.approx(780, abs=60)
    assert times["50/25/25", "low"]["32"] == pytest.approx(1130, abs=120)
    shares = found.tables["Table 1: share of jobs run in parallel (%)"].filter(
        pl.col("distribution") == "none"
    )
    assert shares["1"][0] == pytest.approx(80, abs=4)
    assert shares["32"][0] == pytest.approx(16, abs=4)
    assert {drawing.name for drawing in found.drawings} == {
        *(f"figure-{name}" for name in ("8a", "8b", "8c", "9a", "9b")),
        "table-1",
    }


def test_sjs_stays_better_than_olb_with_varying_run_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_work, "SIZES", (50,))
    monkeypatch.setattr(future_work, "VARIATIONS", (0.0, 0.5))
    found = future_work.robustness(3, Runner(Inline()))
    assert found.claims[0].verdict is Verdict.HOLDS


@pytest.mark.long
def test_a_minimum_gain_avoids_wasted_low_priority_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(future_work, "RATES", (2,))
    found = future_work.preemption(2, Runner(Inline()))
    in_vain = dict(
        found.tables["Means over all rates"].select("policy", "low runs in vain per job").iter_rows()
    )
    assert in_vain["gain of 300 s"] <= in_vain["gain of 60 s"] < in_vain["as in the paper"]


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_page_ledger_tables_and_figures(small_study: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["reproduce", small_study, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "1. PJS is in all cases at least equal to SJS: by construction" in result.output
    written = {path.name for path in (tmp_path / "cs2").iterdir()}
    figures = {f"figure-5{x}.{kind}" for x in "ab" for kind in ("png", "svg", "pdf")}
    assert written == {"page.html", "origin.json", "ledger.csv", "saving-against-sjs.csv", *figures}
    ledger = pl.read_csv(tmp_path / "cs2" / "ledger.csv")
    assert ledger.columns == [*COLUMNS]
    assert len(ledger) == 7
    again = CliRunner().invoke(app, ["reproduce", small_study, "--out", str(tmp_path), "--json"])
    (study,) = json.loads(again.stdout)
    assert [claim["verdict"] for claim in study["claims"]] == ledger["verdict"].to_list()
    assert study["tables"]["Saving against SJS (%)"][0]["jobs"] == 5


def test_an_unknown_study_is_rejected() -> None:
    result = CliRunner().invoke(app, ["reproduce", "cs5"])
    assert result.exit_code == 2
    assert "cs5" in result.output


def test_an_unwritable_folder_is_rejected_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["reproduce", "cs2", "--out", str(tmp_path / "file" / "out")])
    assert result.exit_code == 2
    assert "cannot be written" in result.output


def test_a_perturbed_site_has_other_times_and_the_same_structure() -> None:
    built_in, other = perturbed(0), perturbed(1)
    assert perturbed(1) == other
    assert other.model_copy(update={"job_classes": built_in.job_classes}) == built_in
    for one, another in zip(built_in.job_classes, other.job_classes, strict=True):
        assert one.sequential_s.keys() == another.sequential_s.keys()
        assert one.parallel_s.keys() == another.parallel_s.keys()
        assert one.sequential_s != another.sequential_s
    sizes = {cluster.name: len(cluster.members) for cluster in other.clusters}
    first = other.job_classes[0]
    fastest_s = min(first.sequential_s.values())
    assert all(seconds * sizes[name] >= fastest_s - 0.01 for name, seconds in first.parallel_s.items())


def test_claims_are_judged_on_perturbed_sites_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cs2, "SIZES", (5, 10, 50, 60))
    monkeypatch.setattr(cs2, "EQUAL", (5, 10, 50, 60))
    monkeypatch.setattr(cs2, "COMPARED_SIZES", (5, 10))
    found = cs2.study(2, Runner(Inline()), sites=2)
    assert [c.sites for c in found.claims] == [2] * 7
    assert found.claims[0].as_row()["sites"] == "holds by the rule on 2 of 2 perturbed sites"


def test_other_studies_have_no_perturbed_sites() -> None:
    result = CliRunner().invoke(app, ["reproduce", "cisnep-dyn", "--sites", "3"])
    assert result.exit_code == 2
    assert "omit --sites" in result.output


@pytest.mark.long
def test_table_1_of_cisne_is_compared_with_the_paper_claim_by_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deviations, "MIN_SEEDS", 2)
    monkeypatch.setattr(deviations, "CPU_LIMITS", ())
    found = deviations.table_1(2, Runner(Inline()))
    assert len(found.claims) == 25
    (backfilling, *_) = [c for c in found.claims if "keep the FCFS order" in c.claim]
    assert "aware" in backfilling.inputs
    table = found.tables["Deviation (%), the paper's beside ours (blind)"]
    assert len(table) == 15
    in_order = table.filter(~pl.col("policy").str.contains("BF"))
    assert in_order["CPU"].to_list() == in_order["aware CPU"].to_list(), (
        "without overtaking, both are the same"
    )


@pytest.mark.long
def test_an_interrupted_study_resumes_from_stored_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [experiments.PredictionCase("Basic", load, seed) for seed in range(3) for load in (0.5, 1.0)]
    whole = experiments.run_all(cases, Runner(Inline())).drop("cost_ms")
    path = tmp_path / "table.db"
    seen: list[int] = []

    def interrupt(done: int, total: int | None) -> None:
        if done == 4:
            raise KeyboardInterrupt

    def note(done: int, total: int | None) -> None:
        seen.append(done)

    with Store(path) as store, pytest.raises(Interrupted, match="4 of 6 runs are done"):
        experiments.run_all(cases, Runner(Inline(), store, interrupt))
    with Store(path) as store:
        done = experiments.run_all(cases, Runner(Inline(), store, note))
    assert seen == [4, 5, 6]
    assert done.drop("cost_ms").equals(whole)
    more = [*cases, experiments.PredictionCase("Normal", 1.0, 0)]
    with Store(path) as store:
        again = experiments.run_all(more, Runner(Inline(), store, note))
    assert seen[3:] == [6, 7], "only the new case is carried out"
    assert again.filter(pl.col("policy") == "Basic").drop("cost_ms").equals(whole)


def test_predictions_on_shared_nodes_do_not_depend_on_the_number_of_workers() -> None:
    cases = [
        experiments.PredictionCase(policy, 0.5, seed)
        for seed in range(2)
        for policy in ("Uniform", "Norm+BF")
    ]
    with Processes(2) as executor:
        one, two = (experiments.run_all(cases, Runner(each)).drop("cost_ms") for each in (Inline(), executor))
    assert one.equals(two)


@pytest.mark.long
def test_a_hybrid_correction_is_validated_on_other_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hybrid, "LOADS", (1.0,))
    cells = tuple((policy, 1.0, method) for policy in experiments.POLICIES for method in experiments.METHODS)
    monkeypatch.setattr(hybrid, "CELLS", cells)
    found = hybrid.study(3, Runner(Inline()))
    (table, curve) = found.tables.values()
    assert curve["past seeds"].to_list() == [0, 1, 2, 3]
    basic = table.filter((pl.col("policy") == "Basic") & (pl.col("method") == "CPU")).row(0, named=True)
    plain, corrected = (float(basic[kind].split()[0]) for kind in ("plain", "corrected"))
    assert corrected < plain / 2, (
        "where the slowest of its nodes decides, a job is always later than predicted"
    )


def test_a_claim_that_holds_in_most_cases_partly_holds() -> None:
    above, below, unclear = case(2.0, 0.2), case(-2.0, 0.2), case(0.5, 1.0)
    assert all_or_partly_positive([above, above]).verdict is Verdict.HOLDS
    assert all_or_partly_positive([above, above, below]).verdict is Verdict.PARTLY
    assert all_or_partly_positive([above, above, unclear]).verdict is Verdict.PARTLY
    assert all_or_partly_positive([above, below]).verdict is Verdict.DOES_NOT_HOLD
    assert all_or_partly_positive([above, unclear]).verdict is Verdict.INCONCLUSIVE


def test_a_claim_on_coscheduling_depends_on_how_processes_wait() -> None:
    def saving(workload: str, mpl: int, where: str, variant: str) -> Sample:
        gain = (2.0 if variant == coscheduling.SPINNING else -4.0) * mpl
        level = {"B": 0.0, "C": 1.0, "D": 3.0}[workload]
        return gain * np.array([0.998, 1.002]) + level * np.array([0.999, 1.001])

    effective, most_for_d, grows, less_dedicated, lot = coscheduling.dynamic_claims(saving)
    assert effective.verdict is grows.verdict is Verdict.DEPENDS_ON_INPUT
    assert most_for_d.verdict is Verdict.HOLDS
    assert less_dedicated.judged.verdict is not Verdict.HOLDS
    assert lot.verdict is Verdict.NOT_TESTABLE


def test_users_without_a_response_count_neither_in_the_table_nor_in_the_chart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def made(
        _: object, points: Iterable[tuple[Any, ...]], axes: Sequence[str], seeds: int, __: object
    ) -> Any:
        cells = [dict(zip(axes, point, strict=True)) for point in points]
        no_users = {"response_ms": 0.0, "response_95_ms": 0.0}
        rows = [
            {**cell, "replication": k, "response_ms": 150.0 + k, "response_95_ms": 250.0 + k}
            | (no_users if k == 0 and cell["mpl"] == 1 else {})
            for cell, k in product(cells, range(seeds))
        ]
        return GridSamples(pl.DataFrame(rows), *axes)

    monkeypatch.setattr(coscheduling, "samples", made)
    found = coscheduling.response(3, Runner(Inline()))
    (part,) = found.drawings
    assert part.chart is not None
    assert part.chart.data is not None
    assert set(part.chart.data["y"]) == {151.0, 151.5}
    assert found.tables["Mean response time of local users (ms)"].row(0)[2].startswith("151.5 ")


@pytest.fixture
def smaller_studies(monkeypatch: pytest.MonkeyPatch) -> None:
    short = {"B": ("MG.A", "IS.A"), "C": ("CG.A", "IS.A"), "D": ("IS.A", "IS.A")}
    monkeypatch.setattr(coscheduling, "WORKLOADS", short)
    monkeypatch.setattr(coscheduling, "MPLS", (2, 3))
    monkeypatch.setattr(coscheduling, "MPLS_OF_RESPONSE", (3, 4))
    monkeypatch.setattr(coscheduling, "JOBS", 3)


@pytest.mark.long
@pytest.mark.usefixtures("smaller_studies")
def test_the_cisne_p_studies_measure_what_the_paper_states() -> None:
    dyn, coscheduled, waits = (
        study(2, Runner(Inline()))
        for study in (coscheduling.dynamic, coscheduling.user_space, coscheduling.response)
    )
    verdicts = [claim.verdict for claim in dyn.claims + coscheduled.claims + waits.claims]
    assert len(verdicts) == 12
    assert verdicts.count(Verdict.NOT_TESTABLE) == 2
    assert not any(claim.statement.caveat for claim in dyn.claims + waits.claims)
    (saved,) = dyn.tables.values()
    assert len(saved) == 12
    times = [
        float(cell.split()[0]) for cell in waits.tables["Mean response time of local users (ms)"].row(1)[2:]
    ]
    assert times == sorted(times), "a larger share for parallel tasks makes users wait longer"
