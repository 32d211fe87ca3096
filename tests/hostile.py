"""Schedulers of every kind that misbehave beyond their answers: towards their process, the testbed, the
computer, and those who read what they return. They are named `tests.hostile:name`.

Those in HARMLESS return an answer that counts, others do not.
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import faulthandler
import gc
import json
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
from math import inf, nan
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from scheduler.model import NodeSchedule, Schedule, Start
from scheduler.rules import Kind

Deed = Callable[[], object]
Answer = Callable[[Any, Any], object]
"""Of a problem and a good answer."""

FAULTS: dict[str, type] = {}
HARMLESS: dict[str, type] = {}
KILLED: dict[str, type] = {}
"""As if from outside: no scheduler is blamed."""


class _Hostile:
    answer: Answer

    def schedule(self, problem: Any) -> Any:
        return self.answer(problem, good_answer(problem))


def gives(group: dict[str, type], **answers: Answer) -> None:
    """Schedulers with these names and answers."""
    for name, answer in answers.items():
        group[name] = globals()[name] = type(name, (_Hostile,), {"answer": staticmethod(answer)})


def does(group: dict[str, type], **deeds: Deed) -> None:
    """Schedulers that do something and give a good answer, if they can still do so."""
    gives(group, **{name: lambda _, good, deed=deed: (deed(), good)[1] for name, deed in deeds.items()})


def fault(deed: Deed) -> Any:
    does(FAULTS, **{deed.__name__: deed})
    return FAULTS[deed.__name__]


def harmless(deed: Deed) -> Any:
    does(HARMLESS, **{deed.__name__: deed})
    return HARMLESS[deed.__name__]


def faulty_answer(answer: Answer) -> Any:
    gives(FAULTS, **{answer.__name__: answer})
    return FAULTS[answer.__name__]


def good_answer(problem: Any) -> Any:
    if problem.kind is Kind.MAPPING:
        from scheduler.mapping.immediate import Mct

        return Mct().schedule(problem)
    if problem.kind is Kind.FREE_NODES:
        from scheduler.free_nodes.rigid import Rigid

        return Rigid().schedule(problem)
    if problem.kind is Kind.CLUSTERS:
        return problem.sent_to(0)
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


def without_end(value: Any) -> Iterator[Any]:
    while True:
        yield value


class Endless:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __iter__(self) -> Iterator[Any]:
        return without_end(self.value)

    def __len__(self) -> int:
        return 1


def throw(error: BaseException) -> NoReturn:
    raise error


def stay() -> None:
    time.sleep(600)


# Exceptions.


class OfNoName(BaseException):
    pass


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


class _Nameless(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=_Nameless):
    pass


_ESCAPES = "\x1b]0;owned\x07\x1b[2J"
_ERRORS = {
    "raises": KeyError("the queue I hoped for"),
    "raises_no_exception": OfNoName(),
    "raises_system_exit": SystemExit(0),
    "raises_keyboard_interrupt": KeyboardInterrupt(),
    "raises_generator_exit": GeneratorExit(),
    "raises_without_text": SaysNothing(),
    "raises_without_a_name": NamelessError("x"),
    "exits_while_its_text_is_read": SaysNothingAtAll(),
    "hangs_while_its_text_is_read": NeverStopsTalking(),
    "raises_with_a_long_text": TalksALot(),
    "raises_with_escape_sequences": ValueError(f"{_ESCAPES} [bold]red[/bold] <script>alert(1)</script>"),
    "raises_a_group": ExceptionGroup("several", [ValueError("one"), OSError("two")]),
}
does(FAULTS, **{name: lambda error=error: throw(error) for name, error in _ERRORS.items()})
does(
    FAULTS,
    raises_memory_error=lambda: bytearray(1 << 62),
    raises_with_a_huge_name=lambda: throw(type("E" * 3_000_000, (Exception,), {})("x")),
    raises_from_an_endless_file=lambda: exec(compile("raise KeyError(1)", "/dev/zero", "exec")),
)


@fault
def recurses() -> Any:
    def again() -> Any:
        return again()

    return again()


@fault
def lowers_the_limit_of_recursion() -> Any:
    def down(n: int) -> Any:
        if n:
            return down(n - 1)
        return sys.setrecursionlimit(n + 60)

    down(40)
    return down(10_000)


@fault
def raises_a_fault_of_its_own() -> None:
    from sil.world.guard.faults import KILLED, SchedulerFault

    raise SchedulerFault(KILLED, "no fault", 0.0, 10**30)  # type: ignore[arg-type]


# The process.


def _signal(process: int, *numbers: signal.Signals) -> None:
    for number in numbers:
        os.kill(process, number)


_FROM_ANYONE = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals that may come from anyone."""

does(
    FAULTS,
    exits=lambda: os._exit(0),
    exits_with_a_code=lambda: os._exit(4),
    aborts=os.abort,
    reads_memory_that_is_not_there=lambda: ctypes.string_at(0),
    closes_all_files=lambda: os.closerange(0, 1_000),
    kills_itself=lambda: _signal(os.getpid(), signal.SIGKILL),
    kills_its_parent=lambda: (_signal(os.getppid(), signal.SIGKILL), stay()),
    stops=lambda: _signal(os.getpid(), signal.SIGSTOP),
    **{
        f"gets_{number.name.lower()}": lambda number=number: (_signal(os.getpid(), number), stay())
        for number in _FROM_ANYONE
    },
)
does(
    HARMLESS,
    signals_its_parent=lambda: _signal(os.getppid(), *_FROM_ANYONE, signal.SIGUSR1),
    stops_its_parent=lambda: (tell(), time.sleep(0.1), _signal(os.getppid(), signal.SIGSTOP)),
)


@fault
def writes_into_all_files() -> None:
    for number in range(3, 64):
        with suppress(OSError):
            os.write(number, b"\xff" * 64)


@fault
def detaches_and_kills_its_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
    _signal(os.getppid(), signal.SIGKILL)
    stay()


_asked = 0


def _is_killed_elsewhere_each_time() -> None:
    deaths = Path(tempfile.gettempdir()) / f"sil-deaths-{os.getuid()}"
    global _asked
    _asked += 1
    n = deaths.stat().st_size if deaths.exists() else 0
    if _asked == 1 + n % 3:
        with deaths.open("a") as file:
            file.write("x")
        _signal(os.getpid(), signal.SIGKILL)


does(KILLED, is_killed_elsewhere_each_time=_is_killed_elsewhere_each_time)


# Time.


@fault
def loops() -> None:
    while True:
        pass


@fault
def loops_and_catches_everything() -> None:
    while True:
        with suppress(BaseException):
            time.sleep(0.01)


does(
    FAULTS,
    sleeps=stay,
    hangs_in_c=lambda: sum(range(10**12)),
    waits_for_a_lock=lambda: (lock := threading.Lock()).acquire() and lock.acquire(),
    ignores_alarms=lambda: (signal.signal(signal.SIGALRM, signal.SIG_IGN), stay()),
    blocks_signals=lambda: (signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()), stay()),
    waits_for_a_process_without_end=lambda: subprocess.run(["sleep", "600"], check=False),
)


# What it starts.


def _child(deed: Deed) -> None:
    if os.fork() == 0:
        deed()
        stay()


@harmless
def starts_a_busy_thread() -> None:
    def work() -> None:
        while True:
            time.sleep(0.001)

    threading.Thread(target=work, daemon=True).start()


@harmless
def starts_a_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        tell()
        os.closerange(0, 1_000)
        stay()


@fault
def starts_a_thousand_threads() -> None:
    threading.stack_size(1 << 16)
    for _ in range(1_500):
        threading.Thread(target=stay, daemon=True).start()
    stay()


does(
    HARMLESS,
    starts_a_thread=lambda: threading.Thread(target=threading.Event().wait).start(),
    forks=lambda: _child(tell),
    forks_five_times=lambda: [_child(lambda: None) for _ in range(5)],
    forks_and_goes_on=os.fork,
    forks_into_its_own_group=lambda: _child(lambda: (os.setpgid(0, 0), tell())),
    starts_a_program=lambda: subprocess.Popen(["sleep", "600"], start_new_session=True),
    leaves_a_zombie_each_time=lambda: subprocess.run(["sh", "-c", "true &"], check=False),
)


# Output and input.


@harmless
def closes_its_output() -> None:
    sys.stdout.close()
    sys.stderr = None  # type: ignore[assignment]
    os.closerange(1, 3)


@harmless
def replaces_its_output() -> None:
    class Raises:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    sys.stdout = sys.stderr = Raises()  # type: ignore[assignment]
    sys.excepthook = sys.unraisablehook = None  # type: ignore[assignment]


does(
    HARMLESS,
    prints=lambda: print("deciding"),
    prints_megabytes=lambda: [os.write(1, b"x" * (1 << 20)) for _ in range(32)],
    reads_its_input=lambda: sys.stdin.read() and throw(AssertionError("there is input")),
    prints_without_end=lambda: print("x" * 3_000_000, flush=True),
    prints_escape_sequences=lambda: print(_ESCAPES),
)


# The testbed in its process.


@fault
def replaces_functions_of_numpy() -> Any:
    for name in ("array", "zeros", "empty", "asarray", "frombuffer"):
        setattr(np, name, None)
    return np.zeros(1)


@fault
def replaces_sockets() -> None:
    socket.socket = None  # type: ignore[misc, assignment]
    from sil.workers import channel

    channel.send = lambda *_: None


@fault
def replaces_the_clock() -> None:
    from sil.world.events import SimClock

    SimClock.now_s = property(lambda self: 42.0)  # type: ignore[assignment, misc]


@fault
def replaces_builtins() -> None:
    for name in ("len", "float", "int", "isinstance", "zip"):
        setattr(builtins, name, None)


@fault
def refuses_to_send() -> None:
    def hook(event: str, _: Any) -> None:
        if event.startswith("socket"):
            raise RuntimeError(event)

    for handle in _sockets():
        os.close(handle)
    sys.addaudithook(hook)


@fault
def sends_into_nothing() -> None:
    for handle in _sockets():
        os.dup2(os.open(os.devnull, os.O_RDWR), handle)


def _sockets() -> list[int]:
    found = []
    for handle in range(3, 64):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(handle).st_mode):
                found.append(handle)
    return found


def _send(text: bytes) -> None:
    """For the testbed, to which its process belongs."""
    from sil.workers.channel import HEAD

    for handle in _sockets():
        os.write(handle, HEAD.pack(len(text), 0) + text)


_NO_NUMBERS = b'{"asked": NaN, "jobs": 1e999, "took": [0.1, 0.1, 0.1], "starts": [], "again": -Infinity}'
does(
    FAULTS,
    replaces_the_encoder=lambda: setattr(json, "dumps", lambda *_, **__: "{}"),
    empties_the_modules=lambda: (sys.modules.clear(), throw(KeyError("where is it"))),
    answers_for_the_testbed=lambda: _send(b'{"fault": ["known-job", "no job", 1' + b"0" * 30 + b"]}"),
    sends_numbers_that_are_none=lambda: _send(_NO_NUMBERS),
    sends_texts_that_are_none=lambda: _send(b'{"fault": ["known-job", "no job \\ud800", 1]}'),
)


@faulty_answer
def forgets_all_jobs_and_replaces_the_rules(problem: Any, good: Any) -> Any:
    """Where it could judge itself, it would pass."""
    type(problem).violation = lambda self, answer: None
    return Schedule.of([]) if isinstance(good, Schedule) else NodeSchedule(())


@faulty_answer
def maps_twice_and_replaces_the_rules(problem: Any, good: Any) -> Any:
    type(problem).violation = lambda self, answer: None
    if isinstance(good, Schedule):
        return good._replace(assignments=type(good.assignments).join([good.assignments, good.assignments]))
    return good._replace(starts=(*good.starts, *good.starts)) if good.starts else good


@faulty_answer
def writes_through_an_address(problem: Any, good: Any) -> Any:
    """Into the problem, whose arrays are read-only."""
    if problem.kind is Kind.MAPPING:
        array, at = problem.etc.by_class_s, 0
    elif problem.kind is Kind.FREE_NODES:
        array = np.asarray(problem.free_nodes.queue.tree.size)
        at = len(array) // 2 * array.itemsize
    else:
        array, at = problem.shared_nodes.jobs.n_tasks, 0
    ctypes.memset(array.ctypes.data + at, 0x41, 8)
    return good


# What outlasts the call: hooks, timers, limits and identities of the process.


@harmless
def has_a_collector_hook_that_raises() -> None:
    def hook(phase: str, info: Any) -> None:
        raise RuntimeError(phase)

    gc.callbacks.insert(0, hook)
    gc.collect()


@harmless
def raises_when_it_is_finalised() -> None:
    class Sticky:
        def __del__(self) -> None:
            raise RuntimeError("not me")

    Sticky()
    builtins.sticky = Sticky()  # type: ignore[attr-defined]


@harmless
def is_nice_and_stays_on_one_processor() -> None:
    os.nice(5)
    os.umask(0o777)
    with suppress(AttributeError):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


@harmless
def changes_the_locale_and_warnings() -> None:
    with suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, "C")
    warnings.simplefilter("error")
    np.seterr(all="raise")
    sys.setswitchinterval(1e-6)


does(
    HARMLESS,
    disables_the_garbage_collector=lambda: (gc.disable(), gc.callbacks.clear()),
    seeds_the_global_generators=lambda: (random.seed(1), np.random.seed(1)),  # noqa: NPY002
    sets_the_timer=lambda: (signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001), time.sleep(0.02)),
    floods_itself_with_alarms=lambda: _signal(os.getpid(), *(1_000 * [signal.SIGALRM])),
    is_traced=lambda: (sys.settrace(lambda *_: None), sys.setprofile(lambda *_: None)),
    freezes_the_time=lambda: [
        setattr(time, name, lambda: 0.0) for name in ("perf_counter", "monotonic", "time", "process_time")
    ],
    # As a debugger does, where that is allowed; the parent stops.
    traces_its_parent=lambda: sys.platform == "linux" and ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0),
    lowers_more_limits=lambda: [
        resource.setrlimit(limit, (0, 0))
        for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE, resource.RLIMIT_NPROC)
    ],
    gives_up_its_rights=lambda: os.getuid() or (os.setgroups([]), os.setgid(65_534), os.setuid(65_534)),
    goes_elsewhere=lambda: os.chdir("/"),
    empties_its_environment=os.environ.clear,
    lowers_its_limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)),
    exits_at_exit=lambda: atexit.register(os._exit, 7),
    leads_its_own_group=lambda: os.setpgid(0, 0),
)


does(
    FAULTS,
    raises_in_a_timer=lambda: (
        signal.signal(signal.SIGPROF, lambda *_: throw(RuntimeError("late"))),
        signal.setitimer(signal.ITIMER_PROF, 0.0001, 0.0001),
        sum(range(10**6)),
    ),
    is_ended_by_a_timer=lambda: (signal.setitimer(signal.ITIMER_VIRTUAL, 0.001), sum(range(10**9))),
    exits_when_it_is_late=lambda: (faulthandler.dump_traceback_later(0.05, exit=True), stay()),
)


@fault
def cancels_the_timer() -> None:
    while True:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)


@fault
def is_ended_for_its_processor_time() -> None:
    used = int(time.process_time()) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used, used + 1))
    sum(range(10**12))


# Answers.


@faulty_answer
def raises_when_iterated(problem: Any, good: Any) -> Any:
    class Raises(type(good)):  # type: ignore[misc]
        def __iter__(self) -> Iterator[Any]:
            raise RuntimeError("not to be read")

        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("not to be read")

    return Raises(*good)


@faulty_answer
def lies_about_its_class(problem: Any, good: Any) -> Any:
    class Lies:
        @property
        def __class__(self) -> Any:
            return type(good)

    return Lies()


class _EndlessKeys(dict[int, str]):
    def __iter__(self) -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1


class _Evil(str):
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not compare")

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        raise RuntimeError("do not read")


class _Sly(Start):
    @property
    def job(self) -> int:  # type: ignore[override]
        raise RuntimeError("do not read")


def waiting_with(problem: Any, good: Any, reason: Any) -> Any:
    """All jobs wait, with this reason."""
    reasons = dict.fromkeys(range(problem.n_jobs), reason)
    return Schedule.of([], reasons) if isinstance(good, Schedule) else NodeSchedule((), reasons)


def changed(good: Any, **values: Any) -> Any:
    """The first assignment or start, with other values."""
    if not starts_something(good):
        return good
    if isinstance(good, NodeSchedule):
        if "resource" in values:
            values["nodes"] = values.pop("resource")
        return good._replace(starts=(good.starts[0]._replace(**values), *good.starts[1:]))
    names = {"resource": "resources", "completion_s": "completion_s", "job": "jobs"}
    columns = {
        name: getattr(good.assignments, name).copy()
        for name in ("jobs", "resources", "start_s", "completion_s")
    }
    for name, value in values.items():
        columns[names[name]] = np.array([value, *columns[names[name]][1:]])
    return good._replace(assignments=type(good.assignments)(**columns))


def on_resource(good: Any, number: int) -> Any:
    return changed(good, resource=[number] if isinstance(good, NodeSchedule) else number)


def either(good: Any, preemptions: object, **on_nodes: Any) -> Any:
    """The good answer with other preemptions; that on nodes, which has none, with other values."""
    return good._replace(**on_nodes if isinstance(good, NodeSchedule) else {"preemptions": preemptions})


gives(
    FAULTS,
    returns_nothing=lambda problem, good: None,
    returns_a_list=lambda problem, good: [good],
    returns_a_generator=lambda problem, good: (x for x in good),
    returns_numbers_for_parts=lambda problem, good: type(good)(7),
    returns_another_kind=lambda problem, good: (
        NodeSchedule(()) if isinstance(good, Schedule) else Schedule.of([])
    ),
    has_reasons_without_end=lambda problem, good: good._replace(wait_reasons=_EndlessKeys({0: "x"})),
    has_reasons_that_raise=lambda problem, good: waiting_with(problem, good, _Evil("x")),
    has_reasons_for_names=lambda problem, good: good._replace(wait_reasons={"job": "x"}),
    has_reasons_for_unknown_jobs=lambda problem, good: good._replace(wait_reasons={10**30: "x", -1: "y"}),
    has_reasons_without_parts=lambda problem, good: good._replace(wait_reasons=7),
    completes_at_nan=lambda problem, good: changed(good, completion_s=nan),
    completes_never=lambda problem, good: changed(good, completion_s=inf),
    completes_in_words=lambda problem, good: changed(good, completion_s="soon"),
    completes_beyond_floats=lambda problem, good: changed(
        good, completion_s=10**400 if isinstance(good, NodeSchedule) else inf
    ),
    names_an_unknown_job=lambda problem, good: changed(good, job=problem.n_jobs + 7),
    names_a_negative_job=lambda problem, good: changed(good, job=-problem.n_jobs - 1),
    names_a_huge_job=lambda problem, good: changed(good, job=2**62),
    names_a_job_in_words=lambda problem, good: changed(good, job="first"),
    names_a_true_job=lambda problem, good: changed(good, job=True),
    names_a_huge_resource=lambda problem, good: on_resource(good, 2**62),
    names_a_negative_resource=lambda problem, good: on_resource(good, -1),
    names_resources_without_end=lambda problem, good: (
        changed(good, resource=Endless(0))
        if isinstance(good, NodeSchedule)
        else good._replace(preemptions=Endless(0))
    ),
    has_starts_without_end=lambda problem, good: either(
        good, Endless(0), starts=without_end(Start(0, [0], problem.now_s + 1.0))
    ),
    asks_again_at_nan=lambda problem, good: either(good, (nan,), ask_again_s=nan),
    asks_again_in_the_past=lambda problem, good: either(good, (10**9,), ask_again_s=-1.0),
    # While jobs run for hours.
    asks_again_each_millisecond=lambda problem, good: either(
        good, (10**9,), ask_again_s=problem.now_s + 1e-3
    ),
    # Not at the same time in a second instance.
    asks_again_when_it_likes=lambda problem, good: either(
        good, (random.randrange(10**9),), ask_again_s=problem.now_s + 1.0 + random.random()
    ),
    # Not the same in a second instance.
    decides_by_chance=lambda problem, good: (
        good
        if random.random() < 0.5 or not starts_something(good)
        else waiting_with(problem, good, "not today")
    ),
)


@faulty_answer
def has_starts_that_are_no_starts(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(starts=tuple(_Sly(*start) for start in good.starts) or (_Sly(0, [0], 1.0),))
    return good._replace(assignments=[_Sly(0, [0], 1.0)])


@faulty_answer
def has_columns_of_objects(problem: Any, good: Any) -> Any:
    if isinstance(good, NodeSchedule):
        return good._replace(starts=np.array([object()], dtype=object))
    columns = good.assignments
    return good._replace(assignments=type(columns)(columns.jobs.astype(object), *columns.columns[1:]))


def _with_nodes(good: Any, of: Callable[[list[int]], Any]) -> Any:
    if isinstance(good, Schedule):
        return good
    return good._replace(starts=tuple(start._replace(nodes=of([*start.nodes])) for start in good.starts))


gives(
    HARMLESS,
    gives_nodes_as_memory=lambda problem, good: _with_nodes(good, lambda nodes: memoryview(np.array(nodes))),
    gives_nodes_of_its_own_numbers=lambda problem, good: _with_nodes(
        good, lambda nodes: [np.int16(node) for node in nodes]
    ),
    asks_again_each_second=lambda problem, good: either(
        good, getattr(good, "preemptions", ()), ask_again_s=problem.now_s + 1.0
    ),
)
