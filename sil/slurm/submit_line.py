"""Options of `sbatch`, `srun` and `salloc` in accounting (SubmitLine) that decide when a job starts; what it
requests of nodes is in other columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from site_db.slurm.tres import limit_s

_SHORT = {
    "A": "account", "B": "extra-node-info", "C": "constraint", "D": "chdir", "E": "preserve-env", "G": "gpus",
    "H": "hold", "I": "immediate", "J": "job-name", "K": "kill-command", "L": "licenses", "M": "clusters",
    "N": "nodes", "O": "overcommit", "Q": "quiet", "S": "core-spec", "W": "wait", "a": "array", "b": "begin",
    "c": "cpus-per-task", "d": "dependency", "e": "error", "h": "help", "i": "input", "k": "no-kill",
    "m": "distribution", "n": "ntasks", "o": "output", "p": "partition", "q": "qos", "s": "oversubscribe",
    "t": "time", "w": "nodelist", "x": "exclude",
}  # fmt: skip
_SWITCHES = """contiguous disable-stdout-job-summary exclusive get-user-env help hold hurry ignore-pbs
    kill-on-bad-exit label no-allocate no-kill no-requeue nice overcommit oversubscribe parsable preserve-env
    pty quiet reboot requeue share spread-job stepmgr test-only unbuffered use-min-nodes verbose wait"""
_WITHOUT_VALUE = frozenset(_SWITCHES.split())
"""Options whose value, if they have any, follows =."""
_MODELLED = {
    "dependency": "dependency",
    "licenses": "licenses",
    "nodelist": "nodes",
    "exclude": "excluded_nodes",
    "wckey": "wckey",
}
"""Options with a value, and what `Submission` calls them."""
_OTHERS = """core-spec hint mincpus prefer segment sockets-per-node spread-job switches thread-spec
    threads-per-core use-min-nodes"""
BY_SBATCH = frozenset(_OTHERS.split())
"""Options with which only `sbatch` itself can submit."""
NOT_MODELLED = frozenset(("bb", "bbf", "cluster-constraint", "deadline", "delay-boot", "reboot"))
"""Options that decide when or where a job starts, too."""


class Submitted(NamedTuple):
    """Options of `Submission` as the line has them, `at_once` of an array, and options not modelled. In
    `others`, options of `sbatch` are whole words."""

    options: dict[str, Any]
    at_once: int | None
    left_out: frozenset[str]


def submitted(line: str) -> Submitted:
    """What a line says; a line that is not one of these commands, or is cut, says what can be read of it."""
    options: dict[str, Any] = {}
    others: dict[str, str] = {}
    at_once, left_out = None, set[str]()
    for name, value in _given(line):
        if name in _MODELLED and value:
            options[_MODELLED[name]] = value
        elif name == "array":
            throttle = value.partition("%")[2]
            at_once = int(throttle) if throttle.isdecimal() and int(throttle) else None
        elif name == "nice":
            number = value.lstrip("-")
            options["nice"] = int(value) if number.isdecimal() else 0 if value else 100
        elif name == "time-min":
            with suppress(ValueError):
                options["least_time_min"] = round(limit_s(value) / 60)
        elif name == "exclusive" and value in ("", "exclusive"):
            options["exclusive"] = True
        elif name == "contiguous":
            options["contiguous"] = True
        elif name in ("requeue", "no-requeue"):
            options["requeue"] = name == "requeue"
        elif name in BY_SBATCH or name == "exclusive":
            others[name] = f"--{name}={value}" if value else f"--{name}"
        elif name in NOT_MODELLED:
            left_out.add(name)
    if others:
        options["others"] = (*others.values(),)
    return Submitted(options, at_once, frozenset(left_out))


def _given(line: str) -> Iterator[tuple[str, str]]:
    """Long names of options, and their values, up to the script or program."""
    words = iter(_words(line)[1:])
    for word in words:
        if word == "--" or not word.startswith("-"):
            return
        if word.startswith("--"):
            name, is_given, value = word[2:].partition("=")
            if not is_given and name not in _WITHOUT_VALUE:
                value = next(words, "")
            yield name, value
            continue
        rest = word[1:]
        while rest:
            name, rest = _SHORT.get(rest[0], ""), rest[1:]
            if name in _WITHOUT_VALUE:
                yield name, ""
                continue
            yield name, rest.removeprefix("=") or next(words, "")
            rest = ""


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that is not closed
        return line.split()
