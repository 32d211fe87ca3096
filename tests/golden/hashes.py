"""The content of files as short texts: one for each column, key, table or text."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

Content = dict[str, str]
"""A hash for each part of a file; the part itself where that is shorter."""
ROOT = str(Path(__file__).parents[2])

MEASURED = {
    *("decision_time", "decision_s", "scheduling_time", "simulation_time", "since_unix_s"),
    *("version", "versions", "scheduler_source", "command", "host", "programs", "recorder"),
}
"""Columns and keys of measured times, of versions and of random names."""
UNREAD = re.compile(
    r"(/timings\.parquet|/origin\.json|/(runs|unfinished)\.db|/scheduler\.log"
    r"|\.(html|png|svg|pdf|pyc|lock)|-shm|-wal)$|\.hypothesis/"
)
"""Files of measured times, of versions, of pickled results, and of what is drawn from other files."""
VARIABLE_TEXT = [
    (re.compile(r"^Note: compiling .*\n+", re.MULTILINE), ""),
    (re.compile(r"^ Decision time.*\n(   .*\n)*", re.MULTILINE), ""),
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),  # of the code, among others
    (re.compile(r"[\s─]+"), " "),  # the width of a table depends on measured times
    (re.compile(r"\b0\.[23]\.0\b"), "VERSION"),
]


def _node_set(nodes: pl.Series) -> str:
    """Like `0-3 5`."""
    ranges = [tuple(node.values()) for node in nodes]
    return " ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)


def _share(node: int, chunks: int, gpus: int) -> str:
    """Like `7:2@0,1`."""
    places = [str(place) for place in range(gpus.bit_length()) if gpus >> place & 1]
    return f"{node}:{chunks}@{','.join(places)}" if places else f"{node}:{chunks}"


def _canonical(frame: pl.DataFrame) -> pl.DataFrame:
    """The facts of a trace in the representation of which the hashes were made: sets of nodes as text, and
    shares of nodes in the detail of starts."""
    if "shares" not in frame.columns:
        return frame
    machines = [None if nodes is None else _node_set(nodes) for nodes in frame["machines"]]
    shares = [
        None if cell is None else " ".join(_share(*share.values()) for share in cell)
        for cell in frame["shares"].to_list()
    ]
    return frame.with_columns(
        machines=pl.Series(machines, dtype=pl.String),
        detail=pl.coalesce(pl.Series(shares, dtype=pl.String), "detail"),
    ).drop("shares")


def short(text: str | bytes) -> str:
    data = text if isinstance(text, bytes) else text.encode()
    is_short = len(data) <= 8 and data.isalnum()
    return data.decode() if is_short else hashlib.blake2b(data, digest_size=4).hexdigest()


def _columns(frame: pl.DataFrame) -> Content:
    found = {"rows": str(len(frame))}
    for column in _canonical(frame):
        if column.name not in MEASURED:
            nested = column.dtype.is_nested() or column.dtype == pl.Binary
            texts = map(repr, column) if nested else column.cast(pl.String).fill_null("\0")
            found[column.name] = short("\n".join(texts))
    return found


def _without_measured(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_measured(part) for key, part in value.items() if key not in MEASURED}
    return [_without_measured(part) for part in value] if isinstance(value, list) else value


def _keys(value: Any, depth: int = 2, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value and depth:
        for key, part in value.items():
            yield from _keys(part, depth - 1, f"{prefix}/{key}" if prefix else key)
    else:
        yield prefix, short(_text(json.dumps(value)))


def _tables(path: Path) -> Content:
    """Of a database."""
    with closing(sqlite3.connect(path)) as database:
        names = sorted(
            name for (name,) in database.execute("select name from sqlite_master where type='table'")
        )
        found = {}
        for name in names:
            cursor = database.execute(f'select * from "{name}"')
            kept = [k for k, (column, *_) in enumerate(cursor.description) if column not in MEASURED]
            rows = [repr([row[k] for k in kept]) for row in cursor]
            if rows and name != "alembic_version":
                found[name] = short(_text("\n".join(sorted(rows))))
    return found


def _text(text: str) -> str:
    text = text.replace(str(Path.cwd()), "FOLDER").replace(ROOT, "ROOT")
    for pattern, instead in VARIABLE_TEXT:
        text = pattern.sub(instead, text)
    return text.strip()


def _content(path: Path) -> Content:
    match path.suffix:
        case ".parquet":
            return _columns(pl.read_parquet(path))
        case ".csv":
            return _columns(pl.read_csv(path, infer_schema=False))
        case ".json":
            return dict(_keys(_without_measured(json.loads(path.read_text()))))
        case ".db":
            return _tables(path)
    data = path.read_bytes()
    if path.suffix in (".out", ".err") and data[:1] in (b"{", b"["):
        try:
            return dict(_keys(_without_measured(json.loads(data))))
        except ValueError:
            pass
    try:
        return {"text": short(_text(data.decode()))}
    except UnicodeDecodeError:
        return {"bytes": short(data)}


def contents(folder: Path) -> dict[str, Content]:
    """Of all files below the folder that a case left there."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {
        name: content
        for name, path in names.items()
        if not path.is_symlink() and not UNREAD.search(name) and (content := _content(path))
    }


def differences(before: Mapping[str, Content], now: Mapping[str, Content]) -> list[str]:
    """A line for each file of a case that is not as it was."""
    lines = []
    for name in sorted(before.keys() | now.keys()):
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            lines.append(f"{name}: {'new' if old is None else 'missing'}")
        elif changed := [part for part in {**old, **new} if old.get(part) != new.get(part)]:
            parts = "everything" if len(changed) == len(old) > 1 else ", ".join(map(str, changed))
            values = [
                f" ({old.get(part)} before, now {new.get(part)})" for part in changed if len(changed) == 1
            ]
            lines.append(f"{name}: {parts}{''.join(values)}")
    return lines
