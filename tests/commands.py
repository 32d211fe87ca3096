"""Commands in tests, run in this process."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner, Result

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
