"""`sil predict`: a queue file and a site in, forecasts with their grounds out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.time_shared.forecast import Basis
from sil.cli.app import app
from sil.experiment.turnaround import TurnaroundPrediction

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

QUEUE = """
[[running]]
job = 11
job_class = "CG.B"
nodes = ["node[01-04]"]
ran_for_s = 100
cpu_used_s = 68.82

[[waiting]]
job = 12
job_class = "MG.B"
tasks = 8
"""


@pytest.fixture
def here(here: Path) -> Path:
    (here / "queue.toml").write_text(QUEUE)
    return here


def predict(*arguments: str, site: str = "cisne-2006") -> Result:
    return CliRunner().invoke(app, ["predict", "queue.toml", "--site", site, *arguments])


def answers(*arguments: str, site: str = "cisne-2006") -> list[dict[str, object]]:
    result = predict("--json", *arguments, site=site)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def refusal(*arguments: str, site: str = "cisne-2006") -> str:
    result = predict(*arguments, site=site)
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


def test_a_job_alone_on_its_nodes_ends_after_its_isolated_time(here: Path) -> None:
    first, second = answers()
    assert first["ends_in_s"] == pytest.approx(276.7 - 100)
    assert (second["starts_in_s"], second["ends_in_s"]) == (0.0, pytest.approx(22.8))
    assert first["low_s"] is None, "nothing is known of past errors"


def test_local_users_slow_down_jobs_on_their_node(here: Path) -> None:
    before = answers("--job", "11", "--predictor", "aware mpl-mpl")[0]["ends_in_s"]
    (here / "queue.toml").write_text(QUEUE + '\n[[local]]\nnodes = ["node02"]\ncpu = 0.5\nmemory_mb = 100\n')
    after = answers("--job", "11", "--predictor", "aware mpl-mpl")[0]["ends_in_s"]
    assert after == pytest.approx(2 * before)  # type: ignore[operator]


def test_a_hypothetical_job_waits_for_earlier_ones(here: Path) -> None:
    (here / "queue.toml").write_text(QUEUE.replace('"node[01-04]"', '"node[01-04]"'))
    alone = answers("--submit", "CG.B:8", "--scheduler", "basic")
    assert [(one["job"], one["tasks"]) for one in alone] == [(13, 8)]
    assert alone[0]["starts_in_s"] == pytest.approx(22.8), "12 nodes are free, and 8 of them go to job 12"


def test_without_past_predictions_nothing_is_promised(here: Path) -> None:
    result = predict("--job", "12", "--by", "10m")
    assert "Not promised: job 12 is predicted to end by" in result.stdout
    assert "there is no interval" in " ".join(result.stdout.split())
    assert answers("--job", "12", "--by", "10m")[0]["promised"] is False


def test_past_errors_give_an_interval_and_a_promise(here: Path) -> None:
    run = CliRunner()
    assert run.invoke(app, ["db", "init", "--db", "lab.db"]).exit_code == 0
    assert run.invoke(app, ["db", "import", "cisne-2006", "--db", "lab.db"]).exit_code == 0
    learn = ["run", "shared-nodes", "--site", "lab.db", "--learn", "--out", "out", "--replications", "4"]
    done = run.invoke(app, [*learn, "--scheduler", "uniform_easy", "--workers", "1"])
    assert done.exit_code == 0, done.output
    policy = ("--scheduler", "uniform_easy", "--job", "12")
    reported = answers(*policy, "--by", "2h", site="lab.db")[0]
    assert reported["errors_known"] >= 20  # type: ignore[operator]
    assert reported["low_s"] <= reported["high_s"]  # type: ignore[operator]
    assert reported["promised"] is True
    assert answers(*policy, "--by", str(reported["high_s"] - 1), site="lab.db")[0]["promised"] is False  # type: ignore[operator]
    assert "errors of" in predict(*policy, site="lab.db").stdout
    assert answers("--scheduler", "normal", "--job", "12", site="lab.db")[0]["low_s"] is None, (
        "the errors under one policy say nothing of another"
    )


def test_a_down_node_is_not_used(here: Path) -> None:
    run = CliRunner()
    run.invoke(app, ["db", "init", "--db", "lab.db"])
    run.invoke(app, ["db", "import", "cisne-2006", "--db", "lab.db"])
    for n in range(9, 17):
        assert run.invoke(app, ["db", "state", f"node{n:02}", "down", "--db", "lab.db"]).exit_code == 0
    reported = answers("--job", "12", "--scheduler", "basic", site="lab.db")[0]
    assert reported["starts_in_s"] == pytest.approx(276.7 - 100), "only four nodes are free till then"


NODE_3 = '[[local]]\nnodes = ["node03"]\n'
ON_NODE_1 = '[[running]]\njob = {}\njob_class = "MG.B"\nnodes = ["node[01-02]"]\nran_for_s = 1\n'
FOUR_MORE = "".join(ON_NODE_1.format(n) for n in range(20, 24))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (("tasks = 8\n", f"tasks = 8\n{NODE_3 * 2}"), "the local users of node 'node03' are listed twice"),
        (
            ("tasks = 8\n", f"tasks = 8\n{FOUR_MORE}"),
            "5 jobs run on node 'node01'; the social contract allows 4",
        ),
        (('"CG.B"', '"CG.X"'), "line 4: job 11: the site has no job class 'CG.X' on shared nodes"),
        (("node[01-04]", "node[01-03]"), "CG.B was never measured with 3 tasks, but with 2, 4, 8"),
        (("node[01-04]", "node[15-18]"), "line 5: the cluster 'laboratory' has no node 'node17'"),
        (("tasks = 8", "tasks = 0"), "line 12: waiting[0].tasks = 0"),
        (("job = 12", "job = 11"), "job 11 is listed twice"),
        (("ran_for_s = 100", "ran_for_s = -1"), "line 6: running[0].ran_for_s = -1"),
        (("ran_for_s", "run_for_s"), "line 6: unknown key 'run_for_s'"),
    ],
)
def test_an_invalid_queue_file_is_rejected_with_its_line(
    here: Path, change: tuple[str, str], reported: str
) -> None:
    (here / "queue.toml").write_text(QUEUE.replace(*change))
    assert reported in refusal()


def test_jobs_wait_in_file_order_regardless_of_their_numbers(here: Path) -> None:
    waiting = "".join(
        f'\n[[waiting]]\njob = {job}\njob_class = "BT.A"\ntasks = 8\n' for job in (2**70, 9, 3, 5)
    )
    (here / "queue.toml").write_text(waiting)
    reported = answers("--scheduler", "basic")
    assert [one["job"] for one in reported] == [2**70, 9, 3, 5]
    starts = [one["starts_in_s"] for one in reported]
    assert starts[:2] == [0.0, 0.0], "eight of 16 nodes for each"
    assert starts[2:] == [pytest.approx(109.55)] * 2


def test_a_scheduler_that_fails_during_prediction_is_reported(here: Path) -> None:
    for name, rule in {"Raises": "raises-nothing", "NamesANodeThatIsNotThere": "known-nodes"}.items():
        done = predict("--scheduler", f"tests.faulty_on_nodes:{name}")
        assert done.exit_code == 1
        told = " ".join(done.stderr.split())
        assert told.startswith(f"Fault: tests.faulty_on_nodes:{name} broke the rule {rule}: ")


def test_the_completion_of_an_overdue_job_is_unknown(here: Path) -> None:
    (here / "queue.toml").write_text(QUEUE.replace("68.82", "500"))
    reported = answers("--job", "11", "--by", "1m")[0]
    assert (reported["overdue"], reported["promised"], reported["low_s"]) == (True, False, None)
    assert "its completion is unknown" in " ".join(predict("--job", "11").stdout.split())


def test_no_promise_is_made_for_a_job_behind_an_overdue_one(here: Path) -> None:
    (here / "queue.toml").write_text(QUEUE.replace("68.82", "500"))
    reported = " ".join(predict("--job", "12", "--by", "1m").stdout.split())
    assert "Not promised: job 12 waits for job 11, which is overdue." in reported
    alike = TurnaroundPrediction(12, "MG.B", 8, 0.0, 20.0, 10.0, 30.0, Basis(40, "all jobs"))
    assert alike.promises(60.0)
    assert not replace(alike, after=(11,)).promises(60.0)


def test_an_empty_queue_file_suggests_a_hypothetical_job(here: Path) -> None:
    (here / "queue.toml").write_text("")
    assert "there are no jobs; predict a hypothetical one" in refusal()
    assert answers("--submit", "MG.B:8")[0]["ends_in_s"] == pytest.approx(22.8)


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--by", "soon"), "--by 'soon': expected a duration from now (900, 15m or 2h)"),
        (("--by", "2001-01-01T00:00"), "that time has passed"),
        (("--job", "7"), "there is no job 7; there are 11, 12"),
        (("--submit", "CG.B:4", "--job", "12"), "give only one of them"),
        (("--submit", "CG.B"), "expected a job class and a number of tasks"),
        (("--by", "99999999d"), "more than 101 years from now"),
        (("--submit", "CG.B:²"), "expected a job class and a number of tasks"),
        (("--submit", "CG.B:3"), "the site has no measurement of this job in isolation"),
        (("--scheduler", "sjs"), "scheduler 'sjs' maps jobs to machines"),
        (("--predictor", "crystal"), "unknown predictor 'crystal'; expected aware, blind or hybrid"),
        (("--predictor", "aware cpu-proportional"), "not in proportion"),
        (("--cluster", "office"), "has no cluster 'office'; it has laboratory"),
    ],
)
def test_an_invalid_question_is_rejected_in_one_sentence(
    here: Path, arguments: tuple[str, ...], reported: str
) -> None:
    assert reported in refusal(*arguments)


def test_a_site_without_shared_nodes_is_rejected(here: Path) -> None:
    assert "which cluster of the site 'hcs-2001' has shared nodes? it has none" in refusal(site="hcs-2001")
