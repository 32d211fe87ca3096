"""An unmodified slurmctld runs in simulated time: it starts, accepts jobs, fails and stops cleanly."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from scheduler import UserError
from sil.slurm.configuration import configuration_of
from sil.slurm.controller import Controller
from sil.slurm.daemons import CommandFailed, ControllerDied, ControllerHangs, InvalidConfiguration
from sil.slurm.installation import ANYWHERE, installed, listening, reserved_port
from sil.slurm.protocol.submission import Submission
from sil.slurm.running import running
from tests.sil.slurm.installed import needs_slurm

pytestmark = needs_slurm
START_S = 1_600_000_000.0


@pytest.fixture(scope="module")
def controller() -> Iterator[Controller]:
    with running(configuration_of(4), START_S, {"alice": 70001}) as found:
        yield found


def advance(controller: Controller, for_s: float) -> None:
    controller.serve_until(controller.clock.now_s + for_s)


def processes_in(folder: Path) -> list[psutil.Process]:
    """Those with a controller's folder in their command lines."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


def slurmctld(folder: Path) -> psutil.Process:
    """The controller, not its child of that name, which may have a smaller number once these begin again."""
    found = {each.pid: each for each in processes_in(folder) if each.name() == "slurmctld"}
    (controller,) = (each for each in found.values() if each.ppid() not in found)
    return controller


REQUESTS: list[list[dict[str, Any]]] = [
    [{"min_nodes": 2, "tasks": 2, "time_limit_min": 10, "name": "7"}],
    [{"tasks": 3, "cpus_per_task": 1, "nice": 50, "time_limit_min": 5, "least_time_min": 2}],
    [{"tasks": 1, "array": "1-3%2", "requeue": False, "excluded_nodes": "n1", "comment": "two words"}],
    [{"tasks": 1, "exclusive": True, "contiguous": True, "hold": True, "nodes": "n2"}],
    [{"tasks": 2, "tasks_per_node": 1, "min_nodes": 2, "memory_per_node_mb": 100, "begin": 1_600_100_000}],
    [{"tasks": 1, "memory_per_cpu_mb": 50, "exclusive": False, "kill_on_node_failure": False}],
    [{"tasks": 1, "min_nodes": 1}, {"tasks": 2, "min_nodes": 2}],
]
OF_EACH = re.compile(
    r"\b(?:(JobId|ArrayJobId|HetJob\w+|Priority|AllocNode:Sid|Reason|SubmitLine)=\S+|TresPerTask=cpu=\d+ )"
)
"""What differs between two jobs that were submitted alike, and by whom; `sbatch` of 24.11 states
--cpus-per-task twice, of which CPUs/Task is compared."""


@pytest.mark.parametrize("requests", REQUESTS)
def test_sbatch_submits_the_same_job_as_the_codec(
    controller: Controller, requests: list[dict[str, Any]]
) -> None:
    """Finds an option that has another name or unit there, and a user who is not the one of the job."""

    def shown(*others: str) -> str:
        answer = controller.submit(
            [
                Submission(user=70001, group=70001, **{"name": "job", **each}, others=others)
                for each in requests
            ]
        )
        text = controller.slurm("scontrol", "show", "job", "--oneliner", str(answer.job))
        return OF_EACH.sub(r"\1", text.partition(" SubmitLine=")[0])

    assert shown("--verbose") == shown()
    assert "UserId=alice(70001)" in shown("--verbose")


def test_its_commands_have_its_time(controller: Controller) -> None:
    at = controller.slurm("scontrol", "show", "config").splitlines()[0]
    expected = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(controller.clock.now_s))
    assert at == f"Configuration data as of {expected}"


def test_its_nodes_are_as_configured_and_have_not_registered(controller: Controller) -> None:
    assert controller.slurm("sinfo", "--noheader", "--format=%D %N %t") == "4 n[1-4] unk\n"


def test_half_an_hour_passes_and_pings_have_their_interval(controller: Controller) -> None:
    began_s = controller.clock.now_s
    advance(controller, 1800)
    assert controller.clock.now_s == began_s + 1800
    pings = re.findall(
        r"\[(\S+)\] error: Nodes n\[1-4\] not responding", "\n".join(controller.log_tail("slurmctld", 2000))
    )
    at_s = [float(time.mktime(time.strptime(at[:19], "%Y-%m-%dT%H:%M:%S"))) for at in pings]
    assert at_s[1] - at_s[0] == pytest.approx(300, abs=1)  # an interval of slurmctld's own


def test_users_of_jobs_need_no_accounts(controller: Controller) -> None:
    made = ("starttime=now+1hour", "duration=10", "users=alice", "nodes=n1", "reservationname=hers")
    controller.slurm("scontrol", "create", "reservation", *made)
    shown = controller.slurm("scontrol", "show", "reservation", "hers", "--oneliner")
    starts = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(controller.clock.now_s + 3600))
    assert "Users=alice" in shown
    assert f"StartTime={starts}" in shown


def test_what_a_command_rejects_is_said_in_its_words(controller: Controller) -> None:
    with pytest.raises(CommandFailed, match=r"scontrol show job 99: .*Invalid job id"):
        controller.slurm("scontrol", "show", "job", "99")


def test_it_listens_on_loopback_only(controller: Controller) -> None:
    at = {address for address, port in listening() if port in (controller.port, controller.node_port)}
    assert at == {"0100007F"}


def test_several_controllers_run_side_by_side(controller: Controller) -> None:
    with running(configuration_of(2), START_S) as other:
        assert len({port for each in (controller, other) for port in (each.port, each.node_port)}) == 4
        advance(other, 5)
        assert other.clock.now_s == START_S + 5
        assert "2 n[1-2]" in other.slurm("sinfo", "--noheader", "--format=%D %N")


def test_a_corrupt_configuration_is_reported_in_slurmctlds_words() -> None:
    conf = configuration_of(2, settings=("SchedulerType=sched/imaginary",))
    with pytest.raises(InvalidConfiguration, match=r"slurmctld does not start .*sched/imaginary") as caught:
        running(conf, START_S).__enter__()
    assert str(caught.value).endswith("slurm-wlm-plugins)") is (installed().place == ANYWHERE)


def test_an_unknown_setting_is_reported_in_slurmctlds_words() -> None:
    conf = configuration_of(2, settings=("NoSuchSetting=1",))
    with pytest.raises(InvalidConfiguration, match=r"NoSuchSetting"):
        running(conf, START_S).__enter__()


def test_a_killed_controller_is_a_fault_with_the_end_of_its_log_and_leaves_nothing() -> None:
    with running(configuration_of(2), START_S) as controller:
        advance(controller, 30)
        killed = slurmctld(controller.folder)
        killed.send_signal(signal.SIGKILL)
        killed.wait(10)
        with pytest.raises(
            ControllerDied, match=r"slurmctld has ended; the log of slurmctld ends with: .*"
        ) as caught:
            advance(controller, 30)
    assert caught.value.time_s == 30
    assert not controller.folder.exists()
    assert not processes_in(controller.folder)


def test_a_controller_that_does_not_come_to_rest_hangs() -> None:
    with running(configuration_of(2), START_S) as controller:
        controller.clock.limit_s = 0.3
        slurmctld(controller.folder).send_signal(signal.SIGSTOP)
        with pytest.raises(ControllerHangs, match=r"did not come to rest within 0.3 s; the log of "):
            advance(controller, 30)
    assert not processes_in(controller.folder)


def test_nothing_remains_when_the_testbed_is_killed(tmp_path: Path) -> None:
    text = (
        "import sys, time\n"
        "from sil.slurm.configuration import configuration_of\n"
        "from sil.slurm.running import How, running\n"
        "if __name__ == '__main__':\n"
        f"    with running(configuration_of(2), {START_S}) as controller:\n"
        "        print(controller.folder, flush=True)\n"
        "        time.sleep(60)\n"
    )
    (tmp_path / "program.py").write_text(text)
    with subprocess.Popen(
        [sys.executable, tmp_path / "program.py"], stdout=subprocess.PIPE, text=True
    ) as testbed:
        assert testbed.stdout is not None
        folder = Path(testbed.stdout.readline().strip())
        assert slurmctld(folder).is_running()
        testbed.kill()
    deadline_s = time.monotonic() + 10
    while (folder.exists() or processes_in(folder)) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not folder.exists()
    assert not processes_in(folder)


def test_exhausted_ports_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(self: object, address: object) -> None:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr("socket.socket.bind", bind, raising=False)
    with pytest.raises(UserError, match=r"^there is no free port at 127.0.0.1 .*--workers\)$"):
        reserved_port()


def test_no_other_process_gets_a_reserved_port() -> None:
    first, port = reserved_port()
    with first:
        others = [reserved_port() for _ in range(200)]
        assert port not in {number for _, number in others}
        for other, _ in others:
            other.close()


def test_the_default_configuration_says_nothing_that_slurm_complains_about(controller: Controller) -> None:
    complaints = [
        line for line in (controller.folder / "slurmctld.log").read_text().splitlines() if "error" in line
    ]
    ours = [
        line for line in complaints if "slurm.conf" in line or "more than once" in line or "arsing" in line
    ]
    assert not ours
