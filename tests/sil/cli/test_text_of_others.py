"""Names and messages of others are shown as they are: no terminal, page, chart or file obeys them."""

from __future__ import annotations

import json
import tomllib
import unicodedata
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.table import Table

import sil as api
from scheduler import UserError
from scheduler.messages import printable
from sil.api.calls import ProgressBar, bars
from sil.cli import console
from sil.report.listing import file_name, json_text
from sil.report.page import Cell, Notice, Page, PageTable, Part, Section, slug, write_page
from sil.report.vega_lite import Figure, column, save
from site_db.site_file.importing import read_site_file, site_text
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.sil.batsim.scripted import scheduler

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

HOSTILE = "a\x1b]0;owned\x07\x9b31m\r\u202eb[/b][red]:cat:<script>&\"'\\x1b]]>\ud800"
SHOWN = "a\\u001b]0;owned\\u0007\\u009b31m\\u000d\\u202eb[/b][red]:cat:<script>&\"'\\x1b]]>\\ud800"
SWF = "; MaxProcs: 2\n1 0 -1 50 2 -1 -1 2 60 -1 1 1 1 1 1 -1 -1 -1\n"
any_text = st.text(st.characters(exclude_categories=()))


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "1000")
    return here


def obeyed(text: str) -> set[str]:
    """The characters in it that are neither shown nor white space."""
    hidden = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
    return hidden - {"\n", "\t"}


@given(any_text)
@example(HOSTILE)
def test_printable_text_has_nothing_that_a_terminal_obeys_and_keeps_all_else(text: str) -> None:
    assert not obeyed(printable(text))
    assert printable(printable(text)) == printable(text)
    if not obeyed(text) and all(map(str.isprintable, text)):
        assert printable(text) == text


def test_a_name_stands_for_itself_wherever_a_console_prints_it() -> None:
    table = Table(HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE)
    terminal = console.Terminal(file=StringIO(), width=1000, force_terminal=True, color_system=None)
    for printed in (HOSTILE, table, console.styled(HOSTILE, "bold")):
        terminal.print(printed)
    text = terminal.file.getvalue().replace("\x1b[1m", "").replace("\x1b[3m", "").replace("\x1b[0m", "")
    assert text.count(SHOWN) == 5
    assert not obeyed(text)


@pytest.mark.parametrize("name", ["[/b]", ":cat:", "[red]x"])
def test_a_job_class_may_be_named_like_markup(name: str, here: Path) -> None:
    (here / "site.toml").write_text(TINY_SITE.replace('name = "short"', f'name = "{name}"', 1))
    sil("db", "init")
    succeeded("db", "import", "site.toml")
    for more in ((), ("--job-class", name)):
        shown = succeeded("db", "show", *more)
        assert name in shown.stdout


def test_an_experiment_and_a_folder_may_be_named_like_markup(here: Path) -> None:
    path = tiny_experiment(here, name='"[/b] :cat: \\u001b"')
    done = succeeded("run", str(path), "--out", "[/b]")
    assert "Results are in [/b]" in done.stdout


def test_the_text_of_an_exception_reaches_no_terminal(here: Path) -> None:
    (here / "loud.py").write_text(
        "from scheduler.rules import Kind\n"
        "class Loud:\n"
        "    kind = Kind.MAPPING\n"
        "    def schedule(self, problem):\n"
        f"        raise ValueError({HOSTILE[:-1]!r})\n"
    )
    path = tiny_experiment(here, replications="1")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(here)
        done = sil("run", str(path), "--scheduler", "mct", "--scheduler", "loud:Loud", "--out", "out")
    assert done.exit_code == console.EXIT_FAULT, done.output
    assert "\\u001b]0;owned\\u0007" in done.stderr
    assert not obeyed(done.output)


def test_the_answer_of_a_client_reaches_no_terminal(here: Path) -> None:
    (here / "log.swf").write_text(SWF)
    with scheduler(lambda now_s, events: HOSTILE[:-1]) as (name, _):
        done = sil("replay", "log.swf", "--scheduler", name, "--no-report", "--out", "out")
    assert done.exit_code == console.EXIT_FAULT, done.output
    assert "\\u001b]0;owned" in done.stderr
    assert not obeyed(done.output)


def test_names_in_accounting_reach_no_terminal(here: Path) -> None:
    (here / "log.txt").write_text(
        "JobID|User|JobName|Partition|AllocCPUS|NodeList|Submit|Start|End|Elapsed|State\n"
        "1|a\x1b[2Jnn|s\x9b31mim[/b]|batch|4|n1|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:11:00"
        "|00:10:00|COMPLETED\n"
    )
    sil("db", "init")
    commands = [("import-sacct", "log.txt"), ("show",), ("history",), ("demand", "--by", "user"), ("check",)]
    outputs = [sil("db", *command, "--db", "site.db#here") for command in commands]
    assert [done.exit_code for done in outputs] == [0] * len(commands), outputs
    assert not obeyed("".join(done.output for done in outputs))
    assert "a[2Jnn" in outputs[2].stdout


def test_a_command_to_copy_is_quoted(here: Path) -> None:
    done = sil("experiments", "copy", "my files;ls")
    assert "run it: sil run 'my files;ls/experiments/light-to-heavy.toml'" in done.stdout


def test_a_file_name_that_is_no_text_is_reported_like_any_other(here: Path) -> None:
    sentence = the_sentence(sil("run", "no-\udcff\x1b[2J.toml"))
    assert sentence.startswith("there is no file no-\\udcff\\u001b[2J.toml")


def test_text_on_a_progress_bar_stands_for_itself() -> None:
    terminal = console.Terminal(file=StringIO(), width=1000, force_terminal=True, color_system=None)
    with bars("runs", terminal) as progress:
        ProgressBar(progress, HOSTILE).progressed(0, 3)
        progress.refresh()
    assert SHOWN in terminal.file.getvalue()
    assert HOSTILE[:3] not in terminal.file.getvalue()


@given(any_text)
@example(HOSTILE)
@example("\U000e0001")
def test_json_is_printable_and_says_the_same(text: str) -> None:
    assert not obeyed(json_text({"name": text}))
    assert json.loads(json_text({"name": text})) == {"name": text}


def test_an_exported_site_is_printable_and_the_same_site(here: Path) -> None:
    text = HOSTILE.replace("\ud800", "")
    quoted = json.dumps(text)
    (here / "site.toml").write_text(
        TINY_SITE.replace('name = "tiny"\n', f'name = "tiny"\ndescription = {quoted}\n', 1)
    )
    exported = site_text(read_site_file(here / "site.toml"))
    assert not obeyed(exported)
    assert tomllib.loads(exported)["description"] == text


def test_a_page_shows_text_and_runs_none_of_it(tmp_path: Path) -> None:
    table = PageTable([HOSTILE], [[HOSTILE], [Cell(HOSTILE, HOSTILE)]])
    parts = [Part(HOSTILE, table=table, folded=True), Part(items=[HOSTILE])]
    parts.append(Part(HOSTILE, chart=chart(HOSTILE)))
    page = Page(HOSTILE, HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)], [Notice("note", HOSTILE, HOSTILE)])
    page.sections = [Section(HOSTILE, HOSTILE, parts)]
    page.footer = HOSTILE
    write_page(tmp_path / "page.html", page)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    body, _, scripts = text.partition("<script>")
    assert "&lt;script&gt;" in body
    assert body.count("\\u001b]0;owned") > 10
    assert not obeyed(body)
    assert scripts.count("</script>") == text.count("</script>") == 3


def chart(name: str) -> Figure:
    data = pl.DataFrame({"name": [printable(name), name.replace("\ud800", "")], "y": [1, 2]})
    bars_ = data.pipe(Figure).mark("bar")
    axes = {"x": column("name:N", title=name), "y": column("y:Q", title=name)}
    return bars_.encode(**axes).properties(title=name)


@pytest.mark.parametrize("name", [HOSTILE, "\\u001b", "\x00"])
def test_a_chart_is_valid_xml_whatever_its_names(name: str, tmp_path: Path) -> None:
    save(chart(name), tmp_path / "chart.svg")
    text = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert "<script" not in text


# -- names of files ----------------------------------------------------------------------------------------


@given(any_text)
@example("/../../ESCAPED")
@example("..")
@example("")
@example(".")
@example("é" * 300)
@example("\ud800/x")
def test_every_name_becomes_a_single_part_of_a_path(text: str) -> None:
    for name in (file_name(text), file_name(slug(text))):
        path = Path("folder") / name
        assert (path.parent, path.name) == (Path("folder"), name)
        assert not name.startswith(".")
        assert len(name.encode()) <= 120


def test_long_names_that_differ_become_different_files() -> None:
    assert file_name("x" * 300) != file_name("x" * 299 + "y")


@pytest.mark.parametrize("name", ["/../../ESCAPED", "..", "x" * 300])
def test_results_stay_in_the_current_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "a" / "b" / "c"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    path = tiny_experiment(tmp_path, name=f'"{name}"', replications="1", jobs="4")
    before = set(tmp_path.rglob("*"))
    succeeded("run", str(path))
    (folder,) = here.iterdir()
    assert folder.name.startswith("sil-")
    assert all(new.is_relative_to(folder) for new in set(tmp_path.rglob("*")) - before)


def test_a_folder_may_be_named_like_a_pattern(here: Path) -> None:
    (here / "log.swf").write_text(SWF)
    succeeded("replay", "log.swf", "--scheduler", "easy", "--out", "a[1]*?")
    succeeded("report", "a[1]*?")
    succeeded("why", "--job", "1", "a[1]*?/easy")


def test_a_scheduler_is_not_named_like_a_file_of_the_results(here: Path) -> None:
    (here / "log.swf").write_text(SWF)
    with pytest.raises(UserError, match=r"the results of 'summary.json' would be in .*; name it differently"):
        api.replay(api.read_log("log.swf"), {"summary.json": "easy"}, progress=False)
