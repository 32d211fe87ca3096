from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from site_db.files.input_errors import InvalidFile
from site_db.slurm import lines as slurm_lines
from site_db.slurm.lines import Line, lines_of, pairs_of
from site_db.slurm.output import is_output, values_of

N = 10**6


def read(folder: Path, text: str, notes: list[str] | None = None) -> list[Line]:
    path = folder / "slurm.conf"
    path.write_text(text)
    return [*lines_of(path, [] if notes is None else notes)]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("A=1 B =2 C= 3 D = 4 E\t=\t5", "A:1 B:2 C:3 D:4 E:5"),
        ("A+=1 B -= 2", "A:1 B:2"),
        ('A="x" B = "" C=""', "A:x B: C:"),
        ('A="x",y B=x,"y"', 'A:"x",y B:x,"y"'),
        ('A="x"y" B="x', 'A:"x"y" B:"x'),
        ("A=b=c D = e=f,g=h", "A:b=c D:e=f,g=h"),
        ("A= B=1", "A:B=1"),
        ("A=1 two B=2 three", "A:1 :two B:2 :three"),
        ("a-b=1 Port.x=2", ":a-b=1 Port.x:2"),
        ("A=a\\#b B=c\\\\d", "A:a#b B:c\\d"),
        ("A", ":A"),
        ("A=", "A:"),
    ],
)
def test_a_line_has_the_pairs_that_slurm_reads_and_is_written_so_that_it_has_them_again(
    text: str, pairs: str
) -> None:
    found = [*pairs_of(text)]
    assert " ".join(f"{pair.key}:{pair.value}" for pair in found) == pairs
    assert [*pairs_of(" ".join(map(str, found)))] == found


def test_a_quoted_value_may_contain_blanks() -> None:
    (pair,) = pairs_of('Reason = "a  disk = b"')
    assert (pair.name, pair.value, str(pair)) == ("reason", "a  disk = b", 'Reason="a  disk = b"')


def test_comments_end_lines_and_backslashes_join_them_as_in_slurm(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "A=1 # B=2 \\\n"
        "C=3\\#4 \\\\# D\n"
        "NodeName=n[1,\\  \n"
        "2] CPUs=4 \\\n"
        "   Weight=1\n"
        "# a \\\n"
        "E=5 \\\n"
        "# F=6\n"
        "   G=7\n"
        "H=8 \\",
    )
    assert [(line.values, line.where.rpartition(" ")[2]) for line in found] == [
        ({"a": "1"}, "1"),
        ({"c": "3#4"}, "2"),
        ({"nodename": "n[1,2]", "cpus": "4", "weight": "1"}, "3"),
        ({"e": "5"}, "7"),
        ({"g": "7"}, "9"),
        ({"h": "8"}, "10"),
    ]


NODE = (
    "Arch=x86_64 CPUAlloc=0 CPUTot=16 OS=Linux 5.14 #1 SMP A=b Tue Nov 7 RealMemory=64000 AllocTRES= "
    "State=IDLE"
)


@pytest.mark.parametrize(
    "lines",
    [
        [f"NodeName=c01 {NODE} Partitions=a,b  Reason=no fan #2 [root@x] Comment=k=v State=x Extra=#"],
        [
            "NodeName=c01 Arch=x86_64",
            "   CPUAlloc=0 CPUTot=16",
            "   OS=Linux 5.14 #1 SMP A=b Tue Nov 7 RealMemory=64000",
            "   AllocTRES=",
            "   State=IDLE",
            "   Partitions=a,b ",
            "   Reason=no fan #2 [root@x]",
            "   Comment=k=v State=x",
            "   Extra=#",
        ],
    ],
    ids=["one line", "several"],
)
def test_output_of_commands_has_no_comments_and_values_with_blanks(lines: list[str]) -> None:
    assert is_output(lines)
    values = values_of(lines)
    found = {key: values[key] for key in ("os", "realmemory", "alloctres", "state", "partitions", "reason")}
    assert found == {
        "os": "Linux 5.14 #1 SMP A=b Tue Nov 7",
        "realmemory": "64000",
        "alloctres": "",
        "state": "IDLE",
        "partitions": "a,b",
        "reason": "no fan #2 [root@x]",
    }
    assert values["extra"] == "#"


def test_only_records_of_commands_go_on_in_indented_lines(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "NodeName=n1 CPUs=4 # CPUTot=4\n"
        "  NodeName=n2\n"
        "  SelectType=select/linear\n"
        "  NodeName=n3\n"
        "    CPUTot=4 OS=a # b\n"
        "\n"
        "PartitionName=p\n"
        "   TotalCPUs=4 Nodes=n1\n"
        "#PartitionName=q\n"
        "#  TotalCPUs=4\n",
    )
    assert [(dict(line.values), line.is_output) for line in found] == [
        ({"nodename": "n1", "cpus": "4"}, False),
        ({"nodename": "n2"}, False),
        ({"selecttype": "select/linear"}, False),
        ({"nodename": "n3", "cputot": "4", "os": "a # b"}, True),
        ({"partitionname": "p", "totalcpus": "4", "nodes": "n1"}, True),
    ]


@pytest.mark.parametrize(
    "text", ["Include nodes/a.conf", "include = nodes/a.conf # x", "INCLUDE\tnodes/a.conf"]
)
def test_included_files_are_found_from_the_folder_of_the_first_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes/a.conf").write_text("Include nodes/b.conf\n")
    (tmp_path / "nodes/b.conf").write_text("A=1\n")
    assert [dict(line.values) for line in read(tmp_path, text)] == [{"a": "1"}]


def test_a_copy_takes_the_place_of_a_file_that_is_not_on_this_machine_and_a_note_says_so(
    tmp_path: Path,
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/nodes.conf").write_text("A=1\n")
    (tmp_path / "nodes.conf").write_text("A=2\n")
    notes: list[str] = []
    text = "Include /nowhere/slurm/conf.d/nodes.conf\nInclude /nowhere/slurm/nodes.conf\n"
    assert [dict(line.values) for line in read(tmp_path, text, notes)] == [{"a": "1"}, {"a": "2"}]
    assert notes[0] == (
        f"{tmp_path}/slurm.conf, line 1: read {tmp_path}/conf.d/nodes.conf for "
        "/nowhere/slurm/conf.d/nodes.conf, which is not on this machine"
    )
    assert len(notes) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "A=1\nInclude azure.conf",
            "line 2: it includes azure.conf, but there is no file {}/azure.conf; add it beside {}/slurm.conf",
        ),
        (
            "Include /nowhere/azure.conf",
            "line 1: it includes /nowhere/azure.conf, but there is no file /nowhere/azure.conf, nor "
            "{}/azure.conf; add it beside {}/slurm.conf",
        ),
        ("Include a.conf b.conf", "line 1: 'b.conf' follows the name of a file; expected one file"),
        ("Include x/../slurm.conf", "line 1: {}/x/../slurm.conf includes itself"),
        ("Include pipe", "line 1: it includes {}/pipe, which is not a regular file; expected one"),
        ("Include x", "line 1: it includes {}/x, which is not a regular file; expected one"),
        ("A=1\nInclude /dev/tty", "line 2: it includes /dev/tty, which is not a regular file; expected one"),
    ],
)
def test_a_file_that_cannot_be_included_is_named_with_the_line_that_includes_it(
    text: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "x").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFile) as caught:
        read(tmp_path, text)
    assert str(caught.value) == f"{tmp_path}/slurm.conf, " + sentence.format(tmp_path, tmp_path)


@pytest.mark.parametrize(("n", "each"), [(12, 3), (60, 1)], ids=["exponentially many", "deep"])
def test_files_that_include_too_many_files_are_refused(n: int, each: int, tmp_path: Path) -> None:
    for k in range(n):
        (tmp_path / f"{k}.conf").write_text(f"Include {k + 1}.conf\n" * each)
    (tmp_path / f"{n}.conf").write_text("A=1\n")
    with pytest.raises(InvalidFile, match="too many files are included; expected at most"):
        read(tmp_path, "Include 0.conf\n")


@pytest.mark.parametrize(
    "text",
    ["a" * N, "a " * (N // 8), " " * N, 'a="b ' * (N // 8), '"' * N, "a" + " " * N + "b", "\\" * N, "#" * N],
)
@pytest.mark.parametrize(
    "reader",
    [
        lambda text: sum(1 for _ in pairs_of(text)),
        slurm_lines._UNCOMMENTED.match,
        lambda text: values_of([f"NodeName=a {text} CPUTot=4 OS={text}"]),
        lambda text: is_output([f"NodeName=a {text} CPUTo {text}"]),
    ],
    ids=["pairs", "comment", "output", "recognised"],
)
def test_the_time_to_read_a_line_is_proportional_to_its_length(
    reader: Callable[[str], object], text: str
) -> None:
    begin_s = time.process_time()
    reader(text)
    assert time.process_time() - begin_s < 10.0, "quadratic time would be more than an hour"
