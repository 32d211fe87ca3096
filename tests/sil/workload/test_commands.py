"""Commands on workloads: what they write, and how they answer mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import sil
from tests.sil.workload.swf_files import job, log_file

MISTAKES = {
    "a table": (("lublin", "out.csv"), "one that ends in .swf, .swf.gz, .json or .json.gz"),
    "another compression": (("lublin", "out.swf.xz"), "one that ends in .swf, .swf.gz, .json or .json.gz"),
    "a percentage of load": (("lublin", "out.swf", "--load", "80%"), "'80%' is no number; write 0.8"),
    "a percentage": (("convert", "log.swf", "out.swf", "--load", "80%"), "'80%' is no number; write 0.8"),
    "a separator": (("convert", "log.swf", "out.swf", "--load", "1_0"), "'1_0' is no number"),
    "a word as a date": (
        ("convert", "log.swf", "out.swf", "--from", "yesterday"),
        "'yesterday' is no date; expected one like 2001-05-31",
    ),
    "a separator in places": (("convert", "log.swf", "out.swf", "--jobs", "1_0:2"), "jobs '1_0:2' cannot be"),
    "blanks in places": (("convert", "log.swf", "out.swf", "--jobs", "1 :2"), "jobs '1 :2' cannot be"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_gets_a_sentence_and_nothing_is_written(
    arguments: tuple[str, ...], sentence: str, here: Path
) -> None:
    log_file(here, job())
    result = sil("workload", *arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
    assert [path.name for path in here.iterdir()] == ["log.swf"]


def test_another_load_of_a_log_has_a_note_on_its_days(tmp_path: Path) -> None:
    path = log_file(tmp_path, job(), job(job=2, submit=600))
    result = sil("workload", "convert", path, tmp_path / "out.swf", "--load", "1.2")
    assert "so that a day of the log lasts 20 h" in result.stderr
    result = sil("workload", "convert", path, tmp_path / "out.swf", "--load", "1.0")
    assert "a day of the log" not in result.stderr
