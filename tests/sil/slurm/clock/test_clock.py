"""Time for programs that know nothing of the clock: who waits is woken in order, and time stands still."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler import UserError
from sil.slurm.clock.driver import AdvanceEnd, ControllerClock, Pace, built, waits_of
from tests.sil.slurm.installed import skip_unless_programs_run_in

try:
    built()
except UserError as error:
    pytest.skip(str(error), allow_module_level=True)  # not Linux with the GNU C library
if shutil.which("cc") is None:
    # The programs whose time is simulated are in C; CI has a compiler and accepts no skip.
    pytest.skip("without a C compiler for the programs", allow_module_level=True)

START_S = 1_600_000_000.0
PROGRAM = Path(__file__).with_name("waiting.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("waiting") / "waiting"
    skip_unless_programs_run_in(target.parent)
    subprocess.run(["cc", "-pthread", "-o", target, PROGRAM], check=True)
    return target


@pytest.fixture
def clock(tmp_path: Path) -> Iterator[ControllerClock]:
    try:
        with ControllerClock(tmp_path / "clock", START_S, limit_s=20.0) as found:
            found.classify(waits_of((22, 5)))
            yield found
    except UserError as error:
        pytest.skip(str(error))  # a temporary folder from whose path nothing is preloaded


Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(program: Path, clock: ControllerClock, tmp_path: Path) -> Iterator[Run]:
    """Start the program in a mode; what it prints goes to the file `printed`."""
    started: list[subprocess.Popen[str]] = []

    def start(mode: str, role: str = "daemon") -> subprocess.Popen[str]:
        with (tmp_path / "printed").open("w") as printed:
            users = tmp_path / "users"
            environment = {**os.environ, **clock.environment(role, users)}
            process = subprocess.Popen([program, mode], stdout=printed, env=environment, text=True)
        started.append(process)
        while role == "daemon" and not clock.n_daemons:
            time.sleep(0.001)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def said(tmp_path: Path) -> list[tuple[float, str]]:
    """What the program has printed, with seconds since the start."""
    lines = (line.split(" ", 1) for line in (tmp_path / "printed").read_text().splitlines())
    return [(round(float(at) - START_S, 6), what) for at, what in lines]


def test_the_library_may_have_any_path_and_the_folder_of_a_run_may_not(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "a b: ü" / "clock.so"
    library.parent.mkdir()
    library.symlink_to(built())
    monkeypatch.setattr("sil.slurm.clock.driver.built", lambda: library)
    with ControllerClock(tmp_path / "clock", START_S) as clock:
        environment = {**os.environ, **clock.environment("reader")}
        done = subprocess.run(
            [program, "listens"], capture_output=True, text=True, env=environment, check=True
        )
    assert done.stderr == "", "the dynamic linker complains of a library that it does not find"
    with pytest.raises(UserError, match="with blanks, colons or dollar signs; set TMPDIR to another folder"):
        ControllerClock(library.parent / "clock", START_S)


def test_threads_that_wait_are_woken_in_order_of_time(
    run: Run, clock: ControllerClock, tmp_path: Path
) -> None:
    run("order")
    assert clock.advance(START_S + 10) is AdvanceEnd.REACHED
    assert said(tmp_path) == [
        (2.5, "2.5 s"), (3.0, "3 s"), (5.0, "2.5 s"), (6.0, "3 s"), (7.5, "no news"), (7.5, "2.5 s"),
        (9.0, "3 s"), (10.0, "2.5 s"),
    ] or said(tmp_path)[4:6] == [(7.5, "2.5 s"), (7.5, "no news")]  # fmt: skip
    assert clock.now_s == START_S + 10
    assert clock.next_s == START_S + 12


def test_a_signal_ends_a_wait_for_a_time_early(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    run("news")
    clock.advance(START_S + 12)
    assert said(tmp_path) == [(4.0, "news"), (11.5, "no news")]


def test_time_stands_still_while_a_daemon_computes(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    run("computes")
    assert clock.advance(START_S + 1) is AdvanceEnd.REACHED
    assert said(tmp_path) == [(1.0, "before"), (1.0, "after")]


def test_computing_takes_the_cpu_time_that_is_charged(
    run: Run, clock: ControllerClock, tmp_path: Path
) -> None:
    run("computes")
    clock.settle()
    clock.charge_computing(10.0)
    assert clock.advance(START_S + 1) is AdvanceEnd.REACHED
    (before_s, _), (after_s, _) = said(tmp_path)
    assert before_s == pytest.approx(1, abs=0.1)
    assert 1.9 < after_s - before_s < 2.5
    assert after_s <= clock.now_s - START_S < 3.6


def test_after_a_jump_threads_are_late(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    run("order")
    clock.settle()
    clock.advance(START_S + 100, jumps=True)
    assert {at_s for at_s, _ in said(tmp_path)} == {100.0}
    assert len(said(tmp_path)) == 3


@pytest.mark.parametrize("loop", ["beats", "looks"])
def test_beats_are_stretched_except_after_an_event(
    loop: str, run: Run, clock: ControllerClock, tmp_path: Path
) -> None:
    run(loop)
    clock.stretch_beats(30.0)
    clock.advance(START_S + 65)
    clock.event()
    clock.advance(START_S + 68)
    assert [at_s for at_s, _ in said(tmp_path)] == [30.0, 60.0, 65.0, 66.0, 67.0, 68.0]


def test_a_poll_whose_end_has_no_effect_is_woken_once_a_minute(
    run: Run, clock: ControllerClock, tmp_path: Path
) -> None:
    run("polls")
    clock.advance(START_S + 61)
    found = said(tmp_path)
    assert [at_s for at_s, what in found if what == "named"] == [2.0 * k for k in range(1, 31)]
    for idle in ("poll", "fed_jobs"):
        assert [at_s for at_s, what in found if what == idle] == [60.0]


def test_waits_that_are_not_known_are_woken_on_time_and_named(
    run: Run, clock: ControllerClock, tmp_path: Path
) -> None:
    run("polls")
    clock.advance(START_S + 10)
    assert [str(wait) for wait in clock.unknown_waits] == [
        "thread named in cond_timedwait for 2 s (6 times)"
    ], "the others are the agent and a federation"
    assert said(tmp_path) == [(2.0 * k, "named") for k in range(1, 6)]


def test_all_clocks_but_those_of_the_cpu_agree(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    """A deadline that a daemon takes from another clock would be over for one of both only."""
    run("measures")
    clock.advance(START_S + 3)
    assert (tmp_path / "printed").read_text() == "2.5 2.5 2.5 2.5 \n"


def test_a_timer_of_the_kernel_is_refused_since_it_takes_real_time(run: Run, clock: ControllerClock) -> None:
    """Its time, which is simulated, may be long past, and then it is set again without end."""
    run("timer")
    assert clock.advance(START_S + 10) is AdvanceEnd.REAL
    assert [(wait.thread, wait.function) for wait in clock.unknown_waits] == [("main", "timer_settime")]


@pytest.mark.parametrize(
    ("release", "thread", "paces"),
    [
        ((22, 5), "worker[*", []),
        ((26, 5), "worker[*", [Pace.POLL, Pace.ON_TIME]),
        ((24, 11), "powersave", []),
        ((28, 5), "powersave", [Pace.POLL]),
    ],
)
def test_each_release_has_its_own_waits(release: tuple[int, int], thread: str, paces: list[Pace]) -> None:
    assert [wait.pace for wait in waits_of(release) if wait.thread == thread] == paces


def test_an_advance_ends_while_a_connection_waits(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    run("order")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        clock.wake_on([listener.fileno()])
        assert clock.advance(START_S + 3) is AdvanceEnd.REACHED
        with socket.create_connection(listener.getsockname()):
            assert clock.advance(START_S + 10) is AdvanceEnd.READABLE
            assert clock.now_s == START_S + 3
            listener.accept()[0].close()
            assert clock.advance(START_S + 10) is AdvanceEnd.REACHED


def test_the_end_of_a_daemon_is_noticed_and_when_it_was(run: Run, clock: ControllerClock) -> None:
    run("ends")
    assert clock.advance(START_S + 10) is AdvanceEnd.DIED
    assert clock.now_s == START_S + 5


def test_a_killed_daemon_is_noticed(run: Run, clock: ControllerClock) -> None:
    process = run("order")
    clock.settle()
    process.send_signal(signal.SIGKILL)
    assert clock.advance(START_S + 10) is AdvanceEnd.DIED


def test_a_daemon_that_computes_without_end_hangs(run: Run, tmp_path: Path, program: Path) -> None:
    with ControllerClock(tmp_path / "other", START_S, limit_s=0.1) as clock:
        process = subprocess.Popen([program, "endless"], env={**os.environ, **clock.environment()})
        while not clock.n_daemons:
            time.sleep(0.001)
        assert clock.advance(START_S + 10) is AdvanceEnd.HANGS
        assert clock.now_s == START_S
        process.kill()
        process.wait()


def test_a_command_reads_the_time_and_waits_really(run: Run, clock: ControllerClock, tmp_path: Path) -> None:
    run("reads", role="reader").wait(timeout=10)
    assert said(tmp_path) == [(0.0, "read"), (0.0, "read")]


def test_users_of_a_log_need_no_accounts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("bob:x:70000:70000::/:\nalice:x:70001:70001::/:\n")
    run("users", role="reader").wait(timeout=10)
    known, unknown = (tmp_path / "printed").read_text().splitlines()
    assert known == "70001 alice root alice 1 1 70001"
    assert unknown == "unknown"


def test_nothing_listens_beyond_loopback(run: Run, tmp_path: Path) -> None:
    run("listens", role="reader").wait(timeout=10)
    assert (tmp_path / "printed").read_text() == "127.0.0.1\n"
