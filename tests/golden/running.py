"""Carries out cases, each in a process of its own: forked from one that has imported the product already."""

from __future__ import annotations

import atexit
import json
import os
import shlex
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.golden.hashes import ROOT, Content, contents

ENVIRONMENT = {"COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1", "TZ": "UTC", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Case:
    """Command lines of `sil`, one a line, or a function that writes into the current folder."""

    group: str
    name: str
    work: str | Callable[[], None]

    def lacks(self, inputs: Path) -> str | None:
        """What the case needs and this computer does not have."""
        if self.group == "slurm" and not (shutil.which("slurmctld") or os.path.exists("/usr/sbin/slurmctld")):
            return "Slurm is not installed"
        words = self.work.split() if isinstance(self.work, str) else []
        logs = {word for word in words if word.startswith("in/") and "SP2" in word}
        missing = [log for log in sorted(logs) if not (inputs / log.removeprefix("in/")).exists()]
        return f"there is no ../shared/oracles/swf/{missing[0].removeprefix('in/')}" if missing else None


def in_child(work: Callable[[], object]) -> int:
    """The id of a process that does the work and ends with its exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    if pid := os.fork():
        return pid
    code = 70
    try:
        work()
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _command(words: Sequence[str], number: int) -> None:
    """As the program `sil` does it, with what it prints in files."""
    from sil.cli.app import main

    sys.modules["__main__"].__package__ = None  # it gives the name of the program in messages otherwise
    for stream, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{number}.{suffix}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream)
    sys.argv = ["sil", *words]
    main()


def carry_out(case: Case, folder: Path, inputs: Path) -> None:
    """Leave the raw output of the case in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "in").symlink_to(inputs)
    (folder / "own.py").symlink_to(inputs / "own.py")
    os.chdir(folder)
    os.environ.update(ENVIRONMENT, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not isinstance(case.work, str):
        case.work()
        return
    codes = []
    for number, line in enumerate(case.work.splitlines() or [""]):
        words = shlex.split(line)
        _, status = os.waitpid(in_child(lambda: _command(words, number)), 0)  # noqa: B023
        codes.append(os.waitstatus_to_exitcode(status))
    Path("exit-codes.json").write_text(json.dumps({str(k): code for k, code in enumerate(codes)}))


def load() -> None:
    """Import what cases use, so that none of them has to; no thread may be started."""
    sys.path[0] = ROOT  # and not the current folder, as for `sil`
    import sil
    import sil.cli.app

    for name in sil.__all__:
        getattr(sil, name)
    for name in ("sqlalchemy", "click", "rich"):
        import_module(name)


def results(
    cases: Sequence[Case], root: Path, inputs: Path, n: int
) -> Iterator[tuple[Case, dict[str, Content]]]:
    """Each case with the hashes of its output, as they complete, with `n` at a time."""

    def complete(case: Case) -> None:
        folder = root / case.group / case.name
        carry_out(case, folder, inputs)
        found = contents(folder)
        (root / case.group / f"{case.name}.hashes").write_text(json.dumps(found))

    running: dict[int, Case] = {}
    waiting = list(reversed(cases))
    while running or waiting:
        while waiting and len(running) < n:
            case = waiting.pop()
            running[in_child(lambda: complete(case))] = case  # noqa: B023
        pid, status = os.wait()
        if (done := running.pop(pid, None)) is not None:
            hashes = root / done.group / f"{done.name}.hashes"
            yield done, {"case": {"ended with": str(status)}} if status else json.loads(hashes.read_text())
