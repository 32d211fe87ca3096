"""What Slurm's accounting says, line by line: `sacctmgr dump`, `sacctmgr show qos` and `sshare`.

<https://slurm.schedmd.com/sacctmgr.html>
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from site_db.files.access import read_text
from site_db.files.input_errors import InvalidFile, quoted
from site_db.slurm.lines import Line, Pair, uncommented, unescaped


class Form(StrEnum):
    """The forms of files that state a policy, as messages call them."""

    CONFIGURATION = "a slurm.conf"
    DUMP = "what 'sacctmgr dump CLUSTER' writes"
    QOS = "what 'sacctmgr --parsable2 show qos' prints"
    SHARES = "what 'sshare -a --parsable2' prints"


_OBJECT = re.compile(r"\s*+(\w++)\s*+-\s++(.*)", re.DOTALL)
"""Matches what a line of a dump is of, and its name and settings."""
# A colon after the type of a TRES, as in gres/gpu:a100=4, ends no setting.
_PART = re.compile(r"""(?:/[^=,:'"/]*+:|'[^']*+'|"[^"]*+"|[^:'"])*+""")
_KEY = re.compile(r"(\w++)\s*+([-+]?)=\s*+(.*)", re.DOTALL)
_SAY_NOTHING = {("priority", "0"), ("gracetime", "00:00:00"), ("preemptmode", "cluster")}
_WITHOUT_EFFECT = ("id", "description", "descr")


def form_of(path: Path) -> Form:
    """The form of a file, by its first line. Raises InvalidFile."""
    first = next((text for _, text in _texts(path)), "")
    columns = _columns(first)
    if "account" in columns and "rawusage" in columns:
        return Form.SHARES
    if len(columns) > 1 and "name" in columns:
        return Form.QOS
    if _OBJECT.fullmatch(first):
        return Form.DUMP
    if re.match(r"\s*(?:\w+\s*=|include\s)", first, re.IGNORECASE):
        return Form.CONFIGURATION
    raise InvalidFile(
        f"{path}: its first line is {quoted(first)}; expected {Form.CONFIGURATION}, or {Form.DUMP}, "
        f"{Form.QOS} or {Form.SHARES}"
    )


def dump_lines(path: Path) -> Iterator[Line]:
    """The lines that `sacctmgr dump` wrote. The first pair of each is what it is of (Cluster, QOS, Parent,
    Account or User) and the name of that; the others are its settings. Raises InvalidFile."""
    for where, text in _texts(path):
        found = _OBJECT.fullmatch(text)
        if found is None or not (parts := [*_parts(found[2], where)]):
            raise InvalidFile(
                f"{where}: {quoted(text)}; expected a line like Account - 'physics':Fairshare=1"
            )
        of, *settings = parts
        yield _line(where, Pair(found[1], _unquoted(of)), *(_pair(each, where) for each in settings))


def table_lines(path: Path, kind: str, key: str, form: Form) -> Iterator[Line]:
    """The rows of what a command printed with `--parsable2`, as lines of `kind`, each with the value of the
    column `key` as its name. Raises InvalidFile."""
    lines = enumerate(read_text(path).split("\n"), start=1)
    (_, header), *rows = [(number, line) for number, line in lines if line.strip()] or [(1, "")]
    columns = header.split("|")
    if key not in _columns(header):
        raise InvalidFile(f"{path}, line 1: there is no column {key.title()}; expected {form}")
    for number, row in rows:
        if (n := row.count("|")) > header.count("|"):
            expected = f"expected {len(columns)}, as in the first line"
            raise InvalidFile(f"{path}, line {number}: there are {n + 1} values; {expected}")
        values = [
            Pair(column.strip(), value.strip())
            for column, value in zip(columns, row.split("|"), strict=False)
        ]
        name = next((pair.value for pair in values if pair.name == key), "")
        yield _line(
            f"{path}, line {number}", Pair(kind, name), *(pair for pair in values if pair.name != key)
        )


def qualities(dump: Path | None, listed: Path | None) -> list[Line]:
    """Qualities of service, with the settings that say something: those that a command listed, otherwise
    those of a dump, which has them since Slurm 25.05. Raises InvalidFile."""
    if listed is not None:
        found = [*table_lines(listed, "QOS", "name", Form.QOS)]
    else:
        found = [] if dump is None else [each for each in dump_lines(dump) if each.pairs[0].name == "qos"]
    return [_line(each.where, each.pairs[0], *filter(_says_something, each.pairs[1:])) for each in found]


def _says_something(pair: Pair) -> bool:
    is_default = not pair.value or (pair.name, pair.value.lower()) in _SAY_NOTHING
    return not is_default and pair.name not in _WITHOUT_EFFECT


def _line(where: str, of: Pair, *settings: Pair) -> Line:
    return Line({pair.name: pair.value for pair in settings}, where, (of, *settings))


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """The lines that are not empty, without comments, and where each begins."""
    text, first = "", 1
    for number, raw in enumerate(read_text(path).split("\n"), start=1):
        part, continues = uncommented(raw)
        first = first if text else number
        text += part
        if not continues:
            if text.strip():
                yield f"{path}, line {first}", unescaped(text)
            text = ""


def _columns(header: str) -> list[str]:
    return [name.strip().lower() for name in header.split("|")]


def _parts(text: str, where: str) -> Iterator[str]:
    """What is between the colons."""
    place = 0
    while place < len(text):
        found = _PART.match(text, place)
        end = place if found is None else found.end()
        if end < len(text) and text[end] != ":":
            raise InvalidFile(f"{where}: the quote in {quoted(text[end:])} does not end; add its end")
        if part := text[place:end].strip():
            yield part
        place = end + 1


def _pair(setting: str, where: str) -> Pair:
    found = _KEY.fullmatch(setting)
    if found is None:
        raise InvalidFile(
            f"{where}: {quoted(setting)} is not of the form Key=value; expected that, and quotes around a "
            f"value with a colon"
        )
    key, sign, value = found[1], found[2], _unquoted(found[3])
    return Pair(key, ",".join(f"{sign}{each}" for each in value.split(",")))


def _unquoted(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text
