"""Files of others run code only with the user's consent."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from select import select

import pytest

import sil as api
from scheduler import UserError
from scheduler.registry import key_of
from sil.settings.experiment_file import read_experiment
from sil.settings.foreign_code import Named, ask_in_terminal, foreign_code, is_foreign, list_path, permit
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import sil, succeeded, the_sentence

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

MODULE = """
from pathlib import Path
from scheduler.mapping.immediate import Mct

(Path(__file__).parent / "RAN").touch()

class Theirs(Mct):
    pass
"""
QUEUE = '[[queues]]\nname = "day"\nscheduler = "theirs:Theirs"\n'


@pytest.fixture
def here(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module that leaves a file when it is imported; the user's configuration is empty."""
    (here / "theirs.py").write_text(MODULE)
    monkeypatch.syspath_prepend(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "configuration"))
    monkeypatch.delitem(sys.modules, "theirs", raising=False)
    return here


def experiment(here: Path, *schedulers: str, more: str = "", site: str = TINY_SITE) -> Path:
    names = ", ".join(f'"{name}"' for name in schedulers or ("mct", "theirs:Theirs"))
    return tiny_experiment(here, more, site, schedulers=f"[{names}]", replications="1", jobs="4")


def ran(here: Path) -> bool:
    return (here / "RAN").exists()


def in_a_site_file(here: Path) -> list[str]:
    return [str(experiment(here, "mct", site=TINY_SITE + QUEUE))]


def in_a_database(here: Path) -> list[str]:
    path = experiment(here, "mct", site=TINY_SITE + QUEUE)
    sil("db", "init", "--db", "site.db")
    sil("db", "import", "tiny.toml", "--db", "site.db")
    (here / "tiny.toml").write_text(TINY_SITE)
    return [str(path), "--site", "site.db"]


PLACES: dict[str, Callable[[Path], list[str]]] = {
    "module": lambda here: [str(experiment(here))],
    "command": lambda here: [str(experiment(here, "mct", "batsim: touch RAN"))],
    "queue": lambda here: [str(experiment(here, "mct", more=QUEUE))],
    "parameter": lambda here: [str(experiment(here, "rigid(selection='theirs:Theirs')"))],
    "site file": in_a_site_file,
    "database": in_a_database,
}


@pytest.mark.parametrize("place", PLACES)
def test_without_a_terminal_nothing_that_a_file_names_is_run(place: str, here: Path) -> None:
    sentence = the_sentence(sil("run", *PLACES[place](here)))
    assert not ran(here)
    assert ("touch RAN" if place == "command" else "theirs:Theirs") in sentence
    assert "this can do whatever you can" in sentence
    assert "repeat the command with --trust, or list its folder in" in sentence
    assert str(list_path()) in sentence


@pytest.mark.parametrize("place", ["module", "database"])
def test_with_trust_it_is_run(place: str, here: Path) -> None:
    succeeded("run", *PLACES[place](here), "--trust", "--out", "out")
    assert ran(here)


def test_names_given_as_options_are_trusted_and_those_of_the_file_do_not_matter_then(here: Path) -> None:
    path = experiment(here, "mct", "batsim: touch NEVER")
    succeeded("run", str(path), "--scheduler", "theirs:Theirs", "--out", "out")
    assert ran(here)
    assert not (here / "NEVER").exists()


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("mct", False),
        ("loras(selection=easy)", False),
        ("rigid(backfilling=easy)", False),
        ("scheduler.mapping.immediate:Mct", False),
        ("no-such-scheduler", False),
        ("os:system", True),
        ("sil.experiment.new_scheduler:write_package(name=x)", True),
        ("scheduler.mapping.immediate:MappingPlacer", True),
        ("rigid(selection='os:getpid')", True),
        ("batsim: sh -c 'id(1)'", True),
        ("batsim+tcp://127.0.0.1:28000", False),
        (" batsim: sh", True),
        ("slurm: slurm.conf (PriorityType=priority/basic)", False),
        ("slurm(prefix=/opt/theirs): slurm.conf", True),
        ("slurm (root=theirs)", True),
    ],
)
def test_what_is_neither_built_in_nor_installed_is_foreign(name: str, foreign: bool) -> None:
    assert is_foreign(name) is foreign


def test_files_that_come_with_the_package_are_trusted() -> None:
    built_in = api.Experiment.builtin("light-to-heavy")
    assert built_in.foreign_code(None) == []
    copied = built_in.settings.model_copy(update={"schedulers": ("theirs:Theirs",)})
    assert foreign_code(copied, built_in.source, None) == []
    assert foreign_code(copied, Path("copy.toml"), None)[0].code[0].startswith("theirs:Theirs")


@pytest.mark.parametrize("command", ["plan", "live"])
def test_other_commands_that_run_what_a_file_names_do_not_without_consent(command: str, here: Path) -> None:
    path = experiment(here, "theirs:Theirs")
    if command == "plan":
        offers = '[[offers]]\nname = "more"\nprice = 1\nchanges = ["1 x fast"]\n'
        path.write_text(path.read_text().replace("replications = 1", "") + offers)
    elif sys.platform != "linux":
        pytest.skip("`sil live` runs on Linux only")
    assert "theirs:Theirs" in the_sentence(sil(command, str(path)))
    assert not ran(here)


# -- the user's list ---------------------------------------------------------------------------------------


def write_list(text: str) -> None:
    list_path().parent.mkdir(parents=True)
    list_path().write_text(text)


def test_what_lies_in_a_trusted_folder_is_run(here: Path) -> None:
    write_list(f'folders = ["{here}"]\n')
    succeeded("run", str(experiment(here)), "--out", "out")
    assert ran(here)


def test_a_file_is_trusted_as_long_as_it_names_nothing_else(here: Path) -> None:
    path = experiment(here)
    code = f"theirs:Theirs ({here / 'theirs.py'})"
    write_list(f'[files]\n"{path}" = ["{code}"]\n')
    succeeded("run", str(path), "--out", "out")
    experiment(here, "mct", "theirs:Theirs", "batsim: touch RAN-TOO")
    assert "touch RAN-TOO" in the_sentence(sil("run", str(path), "--out", "out"))


def test_a_wrong_list_is_reported(here: Path) -> None:
    write_list("folder = []\n")
    sentence = the_sentence(sil("run", str(experiment(here))))
    assert sentence == f"{list_path()}, line 1: unknown key 'folder'; did you mean 'folders'?"


def at_a_terminal(found: list[Named], typed: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is shown when this is typed. Raises Untrusted."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs) as keys, os.fdopen(os.dup(theirs), "w") as screen:
        os.write(ours, typed.encode())
        monkeypatch.setattr(sys, "stdin", keys)
        monkeypatch.setattr(sys, "stderr", screen)
        permit(found, ask_in_terminal)
        shown = b""
        while select([ours], [], [], 0)[0]:
            shown += os.read(ours, 10_000)
    os.close(ours)
    return shown.decode()


def test_a_yes_at_the_terminal_is_remembered(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = experiment(here)
    found = foreign_code(read_experiment(path), path, None)
    shown = at_a_terminal(found, "y\n", monkeypatch)
    assert f"theirs:Theirs ({here / 'theirs.py'})" in shown
    assert "It can do whatever you can. Run it? [y/N]" in shown
    succeeded("run", str(path), "--out", "out")


@pytest.mark.parametrize("typed", ["n\n", "\n", "\x04"])
def test_any_other_answer_runs_nothing(typed: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = experiment(here)
    with pytest.raises(UserError, match="nothing was run"):
        at_a_terminal(foreign_code(read_experiment(path), path, None), typed, monkeypatch)
    assert not list_path().exists()


def test_the_question_shows_escape_sequences_and_obeys_none(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = at_a_terminal([Named("e.toml", ("batsim: sh \x1b[2K\rharmless",))], "y\n", monkeypatch)
    assert "batsim: sh \\u001b[2K\\u000dharmless" in shown


# -- Python ------------------------------------------------------------------------------------------------


def test_in_python_a_file_runs_code_only_if_it_is_trusted(here: Path) -> None:
    read = api.Experiment.read(experiment(here))
    with pytest.raises(UserError, match="if you trust it, give trust=True, or list its folder"):
        read.run(progress=False)
    assert not ran(here)
    assert read.run(progress=False, trust=True).schedulers == ["mct", "theirs:Theirs"]


def test_schedulers_given_in_python_are_trusted(here: Path) -> None:
    read = api.Experiment.read(experiment(here, "mct", "batsim: touch NEVER"))
    assert read.run(["theirs:Theirs"], progress=False).schedulers == ["theirs:Theirs"]
    queues = [{"name": "day", "scheduler": "theirs:Theirs"}]
    assert read.with_(schedulers="mct", queues=queues).foreign_code(None) == []


def test_a_plan_in_python_runs_code_only_if_it_is_trusted(here: Path) -> None:
    path = experiment(here, "theirs:Theirs")
    offers = '[[offers]]\nname = "more"\nprice = 1\nchanges = ["1 x fast"]\n'
    path.write_text(path.read_text().replace("replications = 1", "") + offers)
    with pytest.raises(UserError, match="theirs:Theirs"):
        api.plan(path, progress=False)
    assert not ran(here)


# -- code that no file names --------------------------------------------------------------------------------


def test_schedulers_recorded_in_a_database_are_not_imported_to_compare_them(here: Path) -> None:
    assert key_of("theirs:Theirs(b=1, a=2)") == key_of("theirs:Theirs(a=2,b=1)") != key_of("theirs:Theirs")
    assert key_of("uniform_easy") == key_of("loras(selection=easy, node_selection=uniform)")
    assert not ran(here)


def test_metadata_of_a_package_in_the_current_folder_makes_no_plugin(here: Path) -> None:
    folder = here / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[scheduler.plugins]\ninnocent = theirs:Theirs\n")
    assert "unknown scheduler 'innocent'" in the_sentence(sil("run", str(experiment(here, "innocent"))))
    assert "innocent" not in sil("schedulers").stdout
    assert not ran(here)


@pytest.mark.long
def test_a_module_in_the_current_folder_replaces_no_library(here: Path) -> None:
    for library in ("rich", "polars", "tomllib"):
        (here / f"{library}.py").write_text("from pathlib import Path; Path('RAN').touch()")
    command = [Path(sys.executable).parent / "sil", "run", experiment(here, "mct"), "--out", "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not ran(here)
