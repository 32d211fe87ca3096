"""No text of a user takes quadratic time."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sil.settings import notional

ROOT = Path(__file__).parent.parent
METHODS = ("fullmatch", "match", "search", "sub", "split", "findall", "finditer")
N = 20_000
PARTS = [*" \t\n1a_.,:;|=+-*/\\\"'()[]{}#%@!<>", "a=", "1.", "1:", "a.", "a ", "(a", '"\\', "a|"]
BOUNDED = {pattern.pattern for pattern in notional._PATTERNS.values()}
"""Of texts whose length is checked before."""


def expressions() -> Iterator[tuple[str, str, re.Pattern[Any]]]:
    """Where each is that is written out, and by which method it is used."""
    for package in ("scheduler", "site_db", "sil"):
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "re." in text else ():
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name("re"), attr=method),
                        args=[ast.Constant(pattern), *_],
                    ):
                        pass
                    case _:
                        continue
                call = ast.get_source_segment(text, node) or ""
                name = text.splitlines()[node.lineno - 1].partition(" = ")[0].strip()
                used = re.findall(rf"\b{re.escape(name)}\.({'|'.join(METHODS)})\b", text) or ["match"]
                flags = [getattr(re, flag) for flag in re.findall(r"\bre\.([A-Z]+)\b", call)]
                for way in {*used} if method == "compile" else {method} & {*METHODS}:
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", way, re.compile(pattern, sum(flags))


def seconds(expression: re.Pattern[Any], method: str, text: str) -> float:
    given: Any = text.encode() if isinstance(expression.pattern, bytes) else text
    begin_s = time.process_time()
    if method == "sub":
        expression.sub("", given)
    elif method == "finditer":
        sum(1 for _ in expression.finditer(given))
    else:
        getattr(expression, method)(given)
    return time.process_time() - begin_s


def test_regular_expressions_take_linear_time() -> None:
    found = list(expressions())
    assert len(found) > 50
    slow = [
        f"{where}: {expression.pattern!r} on {part!r}"
        for where, method, expression in found
        if expression.pattern not in BOUNDED
        for part in PARTS
        if seconds(expression, method, part * (N // len(part))) > 0.3
    ]
    assert not slow, "\n".join(slow)
