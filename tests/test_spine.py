from typer.testing import CliRunner

from sil.cli import app


def test_the_schedulers_are_listed() -> None:
    result = CliRunner().invoke(app, ["schedulers"])
    assert result.exit_code == 0
    assert "pjs" in result.output
