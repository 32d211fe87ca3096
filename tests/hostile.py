"""Schedulers of every kind that misbehave beyond their answers: towards their process, the testbed, the
computer, and those who read what they return. They are named `tests.hostile:name`, each a function below.

Functions get the problem and a good answer. Those in HARMLESS return an answer that counts, others do not.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import faulthandler
import gc
import locale
import os
import random
import resource
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.kinds import Kind
from scheduler.model import NodeSchedule, Schedule, Start

Deed = Callable[[Any, Any], Any]

FAULTS: dict[str, Deed] = {}
HARMLESS: dict[str, Deed] = {}
KILLED: dict[str, Deed] = {}
"""As if from outside: nobody is blamed."""


def fault(deed: Deed) -> type:
    FAULTS[deed.__name__] = deed
    return _scheduler(deed)


def harmless(deed: Deed) -> type:
    HARMLESS[deed.__name__] = deed
    return _scheduler(deed)


def killed(deed: Deed) -> type:
    KILLED[deed.__name__] = deed
    return _scheduler(deed)


def _scheduler(deed: Deed) -> type:
    class Hostile:
        def schedule(self, problem: Any) -> Any:
            return deed(problem, good_answer(problem))

    Hostile.__name__ = deed.__name__
    return Hostile


def good_answer(problem: Any) -> Any:
    if problem.kind is Kind.MAPPING:
        from scheduler.mapping.immediate import Mct

        return Mct().schedule(problem)
    if problem.kind is Kind.FREE_NODES:
        from scheduler.free_nodes.rigid import Rigid

        return Rigid().schedule(problem)
    from scheduler.time_shared.loras import Loras

    return Loras().schedule(problem)


class Good:
    """Decides well: the innocent one."""

    def schedule(self, problem: Any) -> Any:
        return good_answer(problem)


def tell() -> None:
    """Say who is there, so that a test can look whether it still is."""
    os.write(1, b"started %d\n" % os.getpid())


def starts_something(answer: Any) -> bool:
    return bool(len(answer.starts if isinstance(answer, NodeSchedule) else answer.assignments))


# Exceptions.


class SaysNothing(Exception):
    def __str__(self) -> str:
        raise LookupError("not this either")


class SaysNothingAtAll(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NeverStopsTalking(Exception):
    def __str__(self) -> str:
        while True:
            time.sleep(0.01)


class TalksALot(Exception):
    def __str__(self) -> str:
        return "x" * 10_000_000


class OfNoName(BaseException):
    pass


@fault
def raises(problem: Any, good: Any) -> Any:
    raise KeyError("the queue I hoped for")


def raising(name: str, error: BaseException) -> type:
    def deed(problem: Any, good: Any) -> Any:
        raise error

    deed.__name__ = name
    return fault(deed)


raises_no_exception = raising("raises_no_exception", OfNoName())
raises_system_exit = raising("raises_system_exit", SystemExit(0))
raises_keyboard_interrupt = raising("raises_keyboard_interrupt", KeyboardInterrupt())
raises_generator_exit = raising("raises_generator_exit", GeneratorExit())
raises_without_text = raising("raises_without_text", SaysNothing())
exits_while_its_text_is_read = raising("exits_while_its_text_is_read", SaysNothingAtAll())
hangs_while_its_text_is_read = raising("hangs_while_its_text_is_read", NeverStopsTalking())
raises_with_a_long_text = raising("raises_with_a_long_text", TalksALot())
raises_with_escape_sequences = raising(
    "raises_with_escape_sequences",
    ValueError("\x1b]0;owned\x07\x1b[2J [bold]red[/bold] <script>alert(1)</script>"),
)


@fault
def recurses(problem: Any, good: Any) -> Any:
    def again() -> Any:
        return again()

    return again()


@fault
def raises_memory_error(problem: Any, good: Any) -> Any:
    return bytearray(1 << 62)


@fault
def raises_a_group(problem: Any, good: Any) -> Any:
    raise ExceptionGroup("several", [ValueError("one"), OSError("two")])


# The process.


@fault
def exits(problem: Any, good: Any) -> Any:
    os._exit(0)


@fault
def exits_with_a_code(problem: Any, good: Any) -> Any:
    os._exit(4)


@fault
def aborts(problem: Any, good: Any) -> Any:
    os.abort()


@fault
def reads_memory_that_is_not_there(problem: Any, good: Any) -> Any:
    return ctypes.string_at(0)


@fault
def closes_all_files(problem: Any, good: Any) -> Any:
    os.closerange(0, 1_000)
    return good


@fault
def writes_into_all_files(problem: Any, good: Any) -> Any:
    for number in range(3, 64):
        try:
            os.write(number, b"\xff" * 64)
        except OSError:
            continue
    return good


@fault
def kills_itself(problem: Any, good: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


@fault
def kills_its_parent(problem: Any, good: Any) -> Any:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@killed
def is_killed_elsewhere_each_time(problem: Any, good: Any) -> Any:
    deaths = Path(tempfile.gettempdir()) / f"sil-deaths-{os.getuid()}"
    global _asked
    _asked += 1
    n = deaths.stat().st_size if deaths.exists() else 0
    if _asked == 1 + n % 3:
        with deaths.open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return good


_asked = 0


def signalled(number: signal.Signals) -> type:
    """It sends itself a signal of those that may come from anyone."""

    def deed(problem: Any, good: Any) -> Any:
        os.kill(os.getpid(), number)
        time.sleep(600)

    deed.__name__ = f"gets_{number.name.lower()}"
    return fault(deed)


gets_sigterm = signalled(signal.SIGTERM)
gets_sighup = signalled(signal.SIGHUP)
gets_sigint = signalled(signal.SIGINT)
gets_sigquit = signalled(signal.SIGQUIT)


@harmless
def signals_its_parent(problem: Any, good: Any) -> Any:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
        os.kill(os.getppid(), number)
    return good


@harmless
def stops_its_parent(problem: Any, good: Any) -> Any:
    tell()
    time.sleep(0.1)
    os.kill(os.getppid(), signal.SIGSTOP)
    return good


# Time.


@fault
def stops(problem: Any, good: Any) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)
    return good


@fault
def sleeps(problem: Any, good: Any) -> Any:
    time.sleep(600)


@fault
def loops(problem: Any, good: Any) -> Any:
    while True:
        pass


@fault
def loops_and_catches_everything(problem: Any, good: Any) -> Any:
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            continue


@fault
def hangs_in_c(problem: Any, good: Any) -> Any:
    return sum(range(10**12))


@fault
def waits_for_a_lock(problem: Any, good: Any) -> Any:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@fault
def ignores_alarms(problem: Any, good: Any) -> Any:
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(600)


@fault
def blocks_signals(problem: Any, good: Any) -> Any:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    time.sleep(600)


@fault
def waits_for_a_process_without_end(problem: Any, good: Any) -> Any:
    subprocess.run(["sleep", "600"], check=False)


# What it starts.


@harmless
def starts_a_thread(problem: Any, good: Any) -> Any:
    threading.Thread(target=threading.Event().wait).start()
    return good


@harmless
def starts_a_busy_thread(problem: Any, good: Any) -> Any:
    def work() -> None:
        while True:
            time.sleep(0.001)

    threading.Thread(target=work, daemon=True).start()
    return good


@harmless
def forks(problem: Any, good: Any) -> Any:
    if os.fork() == 0:
        tell()
        time.sleep(600)
    return good


@harmless
def forks_and_goes_on(problem: Any, good: Any) -> Any:
    os.fork()
    return good


@harmless
def forks_five_times(problem: Any, good: Any) -> Any:
    for _ in range(5):
        if os.fork() == 0:
            time.sleep(600)
    return good


@harmless
def forks_into_its_own_group(problem: Any, good: Any) -> Any:
    if os.fork() == 0:
        os.setpgid(0, 0)
        tell()
        time.sleep(600)
    return good


@harmless
def starts_a_daemon(problem: Any, good: Any) -> Any:
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        tell()
        os.closerange(0, 1_000)
        time.sleep(600)
    return good


@harmless
def starts_a_program(problem: Any, good: Any) -> Any:
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    return good


# Output.


@harmless
def prints(problem: Any, good: Any) -> Any:
    print("deciding", problem.n_jobs)
    return good


@harmless
def prints_without_end(problem: Any, good: Any) -> Any:
    print("x" * 3_000_000, flush=True)
    return good


@harmless
def prints_escape_sequences(problem: Any, good: Any) -> Any:
    print("\x1b]0;owned\x07\x1b[2J")
    return good


@harmless
def closes_its_output(problem: Any, good: Any) -> Any:
    sys.stdout.close()
    sys.stderr = None
    os.closerange(1, 3)
    return good


@harmless
def reads_its_input(problem: Any, good: Any) -> Any:
    assert sys.stdin.read() == ""
    return good


# The testbed in its process.


@fault
def replaces_functions_of_numpy(problem: Any, good: Any) -> Any:
    for name in ("array", "zeros", "empty", "asarray", "frombuffer"):
        setattr(np, name, None)
    return np.zeros(1)


@fault
def replaces_the_encoder(problem: Any, good: Any) -> Any:
    import json

    json.dumps = lambda *_, **__: "{}"
    return good


@fault
def replaces_sockets(problem: Any, good: Any) -> Any:
    socket.socket = None  # type: ignore[misc, assignment]
    from sil.isolation import channel

    channel.send = lambda *_: None
    return good


@fault
def forgets_all_jobs_and_replaces_the_rules(problem: Any, good: Any) -> Any:
    """Where it could judge itself, it would pass."""
    type(problem).violation = lambda self, answer: None
    if isinstance(good, Schedule):
        return Schedule.of([])
    return NodeSchedule(())


@fault
def maps_twice_and_replaces_the_rules(problem: Any, good: Any) -> Any:
    type(problem).violation = lambda self, answer: None
    if isinstance(good, Schedule):
        return good._replace(assignments=type(good.assignments).join([good.assignments, good.assignments]))
    return good._replace(starts=(*good.starts, *good.starts)) if good.starts else good


@fault
def replaces_the_clock(problem: Any, good: Any) -> Any:
    from sil.world.events import SimClock

    SimClock.now_s = property(lambda self: 42.0)  # type: ignore[assignment, misc]
    return good


@harmless
def disables_the_garbage_collector(problem: Any, good: Any) -> Any:
    gc.disable()
    gc.callbacks.clear()
    return good


@harmless
def goes_elsewhere(problem: Any, good: Any) -> Any:
    os.chdir("/")
    return good


@harmless
def empties_its_environment(problem: Any, good: Any) -> Any:
    os.environ.clear()
    return good


@harmless
def seeds_the_global_generators(problem: Any, good: Any) -> Any:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    return good


@harmless
def lowers_its_limits(problem: Any, good: Any) -> Any:
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    return good


# Answers.


@fault
def returns_nothing(problem: Any, good: Any) -> Any:
    return None


@fault
def returns_a_list(problem: Any, good: Any) -> Any:
    return [good]


@fault
def returns_a_generator(problem: Any, good: Any) -> Any:
    return (x for x in good)


@fault
def returns_numbers_for_parts(problem: Any, good: Any) -> Any:
    return type(good)(7)


@fault
def returns_another_kind(problem: Any, good: Any) -> Any:
    return NodeSchedule(()) if isinstance(good, Schedule) else Schedule.of([])


@fault
def raises_when_iterated(problem: Any, good: Any) -> Any:
    class Raises(type(good)):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            raise RuntimeError("not to be read")

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("not to be read")

    return Raises(*good)


@fault
def lies_about_its_class(problem: Any, good: Any) -> Any:
    class Lies:
        @property
        def __class__(self) -> Any:
            return type(good)

    return Lies()


class _Endless(dict[int, str]):
    def __iter__(self) -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1


@fault
def has_reasons_without_end(problem: Any, good: Any) -> Any:
    return good._replace(wait_reasons=_Endless({0: "x"}))


class _Evil(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("do not read")


def waiting_with(problem: Any, good: Any, reason: Any) -> Any:
    """All jobs wait, with this reason."""
    reasons = dict.fromkeys(range(problem.n_jobs), reason)
    return Schedule.of([], reasons) if isinstance(good, Schedule) else NodeSchedule((), reasons)


@fault
def has_reasons_that_raise(problem: Any, good: Any) -> Any:
    return waiting_with(problem, good, _Evil("x"))


@fault
def has_reasons_for_names(problem: Any, good: Any) -> Any:
    return good._replace(wait_reasons={"job": "x"})


@fault
def has_reasons_for_unknown_jobs(problem: Any, good: Any) -> Any:
    return good._replace(wait_reasons={10**30: "x", -1: "y"})


@fault
def has_reasons_without_parts(problem: Any, good: Any) -> Any:
    return good._replace(wait_reasons=7)


def _changed(good: Any, **values: Any) -> Any:
    """The first assignment or start, with other values."""
    if not starts_something(good):
        return good
    if isinstance(good, NodeSchedule):
        names = {"resource": "nodes", "completion_s": "completion_s", "job": "job"}
        first = good.starts[0]._replace(**{names[name]: value for name, value in values.items()})
        return good._replace(starts=(first, *good.starts[1:]))
    names = {"resource": "resources", "completion_s": "completion_s", "job": "jobs"}
    columns = {
        name: getattr(good.assignments, name).copy()
        for name in ("jobs", "resources", "start_s", "completion_s")
    }
    for name, value in values.items():
        columns[names[name]] = np.array([value, *columns[names[name]][1:]])
    return good._replace(assignments=type(good.assignments)(**columns))


@fault
def completes_at_nan(problem: Any, good: Any) -> Any:
    return _changed(good, completion_s=float("nan"))


@fault
def completes_never(problem: Any, good: Any) -> Any:
    return _changed(good, completion_s=float("inf"))


@fault
def completes_in_words(problem: Any, good: Any) -> Any:
    return _changed(good, completion_s="soon")


@fault
def names_an_unknown_job(problem: Any, good: Any) -> Any:
    return _changed(good, job=problem.n_jobs + 7)


@fault
def names_a_negative_job(problem: Any, good: Any) -> Any:
    return _changed(good, job=-problem.n_jobs - 1)


@fault
def names_a_huge_job(problem: Any, good: Any) -> Any:
    return _changed(good, job=2**62)


@fault
def names_a_job_in_words(problem: Any, good: Any) -> Any:
    return _changed(good, job="first")


@fault
def names_a_huge_resource(problem: Any, good: Any) -> Any:
    resource = 2**62
    return _changed(good, resource=[resource] if isinstance(good, NodeSchedule) else resource)


@fault
def names_a_negative_resource(problem: Any, good: Any) -> Any:
    return _changed(good, resource=[-1] if isinstance(good, NodeSchedule) else -1)


class _NodesWithoutEnd:
    def __iter__(self) -> Iterator[int]:
        while True:
            yield 0


@fault
def names_resources_without_end(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return _changed(good, resource=_NodesWithoutEnd())
    return good._replace(preemptions=_NodesWithoutEnd())


@fault
def has_starts_that_are_no_starts(problem: Any, good: Any) -> Any:
    class Sly(Start):
        @property
        def job(self) -> int:  # type: ignore[override]
            raise RuntimeError("do not read")

    if isinstance(good, NodeSchedule):
        return good._replace(starts=tuple(Sly(*start) for start in good.starts) or (Sly(0, [0], 1.0),))
    return good._replace(assignments=[Sly(0, [0], 1.0)])


@fault
def has_columns_of_objects(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(starts=np.array([object()], dtype=object))
    columns = good.assignments
    return good._replace(assignments=type(columns)(columns.jobs.astype(object), *columns.columns[1:]))


@fault
def asks_again_at_nan(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(ask_again_s=float("nan"))
    return good._replace(preemptions=(float("nan"),))


@fault
def asks_again_in_the_past(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(ask_again_s=-1.0)
    return good._replace(preemptions=(10**9,))


@fault
def decides_by_chance(problem: Any, good: Any) -> Any:
    """Not the same in a second instance."""
    if random.random() < 0.5 or not starts_something(good):
        return good
    return waiting_with(problem, good, "not today")


# What outlasts the call: hooks, timers, limits and identities of the process.


@harmless
def has_a_collector_hook_that_raises(problem: Any, good: Any) -> Any:
    def hook(phase: str, info: Any) -> None:
        raise RuntimeError(phase)

    gc.callbacks.insert(0, hook)
    gc.collect()
    return good


@harmless
def exits_at_exit(problem: Any, good: Any) -> Any:
    atexit.register(os._exit, 7)
    return good


@harmless
def raises_when_it_is_finalised(problem: Any, good: Any) -> Any:
    class Sticky:
        def __del__(self) -> None:
            raise RuntimeError("not me")

    Sticky()
    builtins.sticky = Sticky()  # type: ignore[attr-defined]
    return good


@harmless
def sets_the_timer(problem: Any, good: Any) -> Any:
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    time.sleep(0.02)
    return good


@harmless
def floods_itself_with_alarms(problem: Any, good: Any) -> Any:
    for _ in range(1_000):
        os.kill(os.getpid(), signal.SIGALRM)
    return good


@harmless
def is_nice_and_stays_on_one_processor(problem: Any, good: Any) -> Any:
    os.nice(5)
    os.umask(0o777)
    with suppress(AttributeError):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return good


@harmless
def leads_its_own_group(problem: Any, good: Any) -> Any:
    os.setpgid(0, 0)
    return good


@harmless
def lowers_more_limits(problem: Any, good: Any) -> Any:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    return good


@harmless
def changes_the_locale_and_warnings(problem: Any, good: Any) -> Any:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C")
    warnings.simplefilter("error")
    np.seterr(all="raise")
    sys.setswitchinterval(1e-6)
    return good


@harmless
def replaces_its_output(problem: Any, good: Any) -> Any:
    class Raises:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    sys.stdout = sys.stderr = Raises()  # type: ignore[assignment]
    sys.excepthook = sys.unraisablehook = None  # type: ignore[assignment]
    return good


@harmless
def freezes_the_time(problem: Any, good: Any) -> Any:
    for name in ("perf_counter", "monotonic", "time", "process_time"):
        setattr(time, name, lambda: 0.0)
    return good


@harmless
def leaves_a_zombie_each_time(problem: Any, good: Any) -> Any:
    subprocess.run(["sh", "-c", "true &"], check=False)
    return good


@harmless
def is_traced(problem: Any, good: Any) -> Any:
    sys.settrace(lambda *_: None)
    sys.setprofile(lambda *_: None)
    return good


@harmless
def gives_nodes_as_memory(problem: Any, good: Any) -> Any:
    return _with_nodes(good, lambda nodes: memoryview(np.array(nodes)))


@harmless
def gives_nodes_of_its_own_numbers(problem: Any, good: Any) -> Any:
    return _with_nodes(good, lambda nodes: [np.int16(node) for node in nodes])


def _with_nodes(good: Any, of: Callable[[list[int]], Any]) -> Any:
    if isinstance(good, Schedule):
        return good
    return good._replace(starts=tuple(start._replace(nodes=of([*start.nodes])) for start in good.starts))


@fault
def raises_in_a_timer(problem: Any, good: Any) -> Any:
    def ring(*_: Any) -> None:
        raise RuntimeError("late")

    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, 0.0001, 0.0001)
    sum(range(10**6))
    return good


@fault
def is_ended_by_a_timer(problem: Any, good: Any) -> Any:
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.001)
    return sum(range(10**9))


@fault
def exits_when_it_is_late(problem: Any, good: Any) -> Any:
    faulthandler.dump_traceback_later(0.05, exit=True)
    time.sleep(600)


@fault
def cancels_the_timer(problem: Any, good: Any) -> Any:
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


@fault
def is_ended_for_its_processor_time(problem: Any, good: Any) -> Any:
    used = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used, used + 1))
    return sum(range(10**12))


@fault
def refuses_to_send(problem: Any, good: Any) -> Any:
    def hook(event: str, _: Any) -> None:
        if event.startswith("socket"):
            raise RuntimeError(event)

    for handle in _sockets():
        os.close(handle)
    sys.addaudithook(hook)
    return good


def _sockets() -> list[int]:
    found = []
    for handle in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                found.append(handle)
    return found


@fault
def sends_into_nothing(problem: Any, good: Any) -> Any:
    for handle in _sockets():
        os.dup2(os.open(os.devnull, os.O_RDWR), handle)
    return good


@fault
def answers_for_the_testbed(problem: Any, good: Any) -> Any:
    """With numbers that no table can have."""
    from sil.isolation.channel import HEAD

    for handle in _sockets():
        text = b'{"fault": ["known-job", "no job", 1' + b"0" * 30 + b"]}"
        os.write(handle, HEAD.pack(len(text), 0) + text)
    return good


@fault
def replaces_builtins(problem: Any, good: Any) -> Any:
    for name in ("len", "float", "int", "isinstance", "zip"):
        setattr(builtins, name, None)
    return good


@fault
def empties_the_modules(problem: Any, good: Any) -> Any:
    sys.modules.clear()
    raise KeyError("where is it")


@fault
def lowers_the_limit_of_recursion(problem: Any, good: Any) -> Any:
    def down(n: int) -> Any:
        if n:
            return down(n - 1)
        return sys.setrecursionlimit(n + 60)

    down(40)
    return down(10_000)


@fault
def raises_with_a_huge_name(problem: Any, good: Any) -> Any:
    raise type("E" * 3_000_000, (Exception,), {})("x")


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=_Nameless):
    pass


raises_without_a_name = raising("raises_without_a_name", NamelessError("x"))


@fault
def raises_from_an_endless_file(problem: Any, good: Any) -> Any:
    exec(compile("raise KeyError(1)", "/dev/zero", "exec"))


@fault
def raises_a_fault_of_its_own(problem: Any, good: Any) -> Any:
    from sil.world.guard.faults import KILLED, SchedulerFault

    raise SchedulerFault(KILLED, "nobody", 0.0, 10**30)  # type: ignore[arg-type]


@fault
def writes_through_an_address(problem: Any, good: Any) -> Any:
    """Into the problem, whose arrays are read-only."""
    if problem.kind is Kind.MAPPING:
        array, at = problem.etc.by_class_s, 0
    elif problem.kind is Kind.FREE_NODES:
        array = problem.free_nodes.queue.arrays.tree
        at = len(array) // 2 * array.strides[0] + array.strides[1]
    else:
        array, at = problem.shared_nodes.jobs.n_tasks, 0
    ctypes.memset(array.ctypes.data + at, 0x41, 8)
    return good


@fault
def asks_again_when_it_likes(problem: Any, good: Any) -> Any:
    """Not at the same time in a second instance."""
    if isinstance(good, NodeSchedule):
        return good._replace(ask_again_s=problem.now_s + 1.0 + random.random())
    return good._replace(preemptions=(random.randrange(10**9),))


@fault
def completes_beyond_floats(problem: Any, good: Any) -> Any:
    return _changed(good, completion_s=10**400 if isinstance(good, NodeSchedule) else np.inf)


@fault
def names_a_true_job(problem: Any, good: Any) -> Any:
    return _changed(good, job=True)


@fault
def has_starts_without_end(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(starts=_without_end(Start(0, [0], problem.now_s + 1.0)))
    return good._replace(preemptions=_NodesWithoutEnd())


def _without_end(value: Any) -> Iterator[Any]:
    while True:
        yield value


@fault
def starts_a_thousand_threads(problem: Any, good: Any) -> Any:
    threading.stack_size(1 << 16)
    for _ in range(1_500):
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    time.sleep(600)


@fault
def detaches_and_kills_its_parent(problem: Any, good: Any) -> Any:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


@fault
def sends_numbers_that_are_none(problem: Any, good: Any) -> Any:
    from sil.isolation.channel import HEAD

    for handle in _sockets():
        text = b'{"asked": NaN, "jobs": 1e999, "took": [0.1, 0.1, 0.1], "starts": [], "again": -Infinity}'
        os.write(handle, HEAD.pack(len(text), 0) + text)
    return good


@fault
def sends_texts_that_are_none(problem: Any, good: Any) -> Any:
    from sil.isolation.channel import HEAD

    for handle in _sockets():
        text = b'{"fault": ["known-job", "no job \\ud800", 1]}'
        os.write(handle, HEAD.pack(len(text), 0) + text)
    return good


@harmless
def gives_up_its_rights(problem: Any, good: Any) -> Any:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65_534)
        os.setuid(65_534)
    return good


@harmless
def traces_its_parent(problem: Any, good: Any) -> Any:
    """As a debugger does, where that is allowed; the parent stops."""
    if sys.platform == "linux":
        ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)
    return good


@harmless
def prints_megabytes(problem: Any, good: Any) -> Any:
    block = b"x" * (1 << 20)
    for _ in range(1 << 5):
        os.write(1, block)
    return good


@fault
def asks_again_each_millisecond(problem: Any, good: Any) -> Any:
    """While jobs run for hours."""
    if isinstance(good, NodeSchedule):
        return good._replace(ask_again_s=problem.now_s + 1e-3)
    return good._replace(preemptions=(10**9,))


@harmless
def asks_again_each_second(problem: Any, good: Any) -> Any:
    return good._replace(ask_again_s=problem.now_s + 1.0) if isinstance(good, NodeSchedule) else good
