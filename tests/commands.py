"""Commands in tests, run in this process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from click.testing import CliRunner, Result

from sil.cli.app import app


def sil(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def the_sentence(result: Result) -> str:
    """The message of a user error: exit code 2, one line on standard error, no traceback."""
    assert result.exit_code == 2, result.output
    assert not result.stdout.strip()
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


def succeeded(*arguments: str | Path) -> Result:
    """What a command says that succeeds."""
    result = sil(*arguments)
    assert result.exit_code == 0, result.output
    return result


def in_a_process(
    *command: str | Path, cwd: Path | None = None, timeout: float | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with these variables beside those of this one."""
    variables = os.environ | environment
    return subprocess.run(command, cwd=cwd, env=variables, timeout=timeout, capture_output=True, text=True)
