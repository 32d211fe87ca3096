"""Mutations of valid inputs: each is determined by a number, so that it can be made again."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Sequence

TOKENS = [
    *(b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"1e400", b"-1e400", b"1e-400", b"-0", b"0", b"-1", b"1"),
    *(b"1_0", b"0x10", b"1e15", b"1e16", b"1e308", b"2147483647", b"2147483648", b"4294967296", b"0.1"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"1000000000000", b"1e12"),
    *(b"9" * 400, b"9" * 5_000, "²".encode(), "٣".encode(), "１".encode(), b"true", b"null", b"None", b""),
    *(
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\r",
        b"\r\n",
        b"\n",
        b"\n\n",
        b"\x0b",
        "\u2028".encode(),
        b"\t",
        b" ",
    ),
    *(b'"', b"'", b'"""', b"[", b"]", b"[[", b"{", b"}", b"=", b",", b";", b"#", b"|", b"\\", b"\x1b[31m"),
    *(b"[/b]", b"..", b"/", b"n[1-99999]", b"n[01-", b"a.a.a.a", b"1-00:00:00", b"99-99:99:99"),
    "\U0001f600".encode(),
    *(b"2020-01-01T00:00:00", b"9999-12-31T23:59:59", b"0001-01-01T00:00:00", b"gres/gpu:a100=4", b"1.5G"),
]
"""What readers are known to stumble over."""
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z_][\w-]*")


def mutated(seeds: Sequence[bytes], number: int, may_be_compressed: bool = True) -> bytes:
    """One of the seeds with some mutations; sometimes compressed, and damaged once more."""
    rng = random.Random(number)
    data = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5, 10))):
        data = rng.choice(_MUTATIONS)(data, rng, seeds)
    if may_be_compressed and rng.random() < 0.1:
        data = gzip.compress(data, compresslevel=1, mtime=0)
        if rng.random() < 0.7:
            data = rng.choice((_bytes, _cut, _without, _twice))(data, rng, seeds)
    return data


def _place(data: bytes, rng: random.Random) -> int:
    return rng.randrange(len(data) + 1)


def _part(data: bytes, rng: random.Random) -> tuple[int, int]:
    begin = _place(data, rng)
    return begin, min(len(data), begin + rng.choice((1, 2, 5, 20, 100, 1_000)))


def _bytes(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8)) if data else 0):
        changed[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(changed)


def _cut(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return data[: _place(data, rng)]


def _without(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    begin, end = _part(data, rng)
    return data[:begin] + data[end:]


def _twice(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    begin, end = _part(data, rng)
    return data[:end] + data[begin:end] * rng.choice((1, 1, 2, 30)) + data[end:]


def _moved(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    begin, end = _part(data, rng)
    rest, to = data[:begin] + data[end:], _place(data[end - begin :], rng)
    return rest[:to] + data[begin:end] + rest[to:]


def _token(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.choice(TOKENS) + data[at:]


def _other(pattern: re.Pattern[bytes], data: bytes, rng: random.Random, new: Sequence[bytes]) -> bytes:
    found = list(pattern.finditer(data))
    if not found:
        return data
    match = rng.choice(found)
    return data[: match.start()] + rng.choice(new) + data[match.end() :]


def _number(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return _other(_NUMBER, data, rng, TOKENS)


def _word(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    return _other(_WORD, data, rng, [*TOKENS, *_WORD.findall(rng.choice(seeds))])


def _spliced(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def _lines(data: bytes, rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    k = rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            lines.pop(k)
        case 1:
            lines.insert(k, lines[k])
        case 2:
            rng.shuffle(lines)
        case _:
            lines[k] = b" " + lines[k]
    return b"\n".join(lines)


Mutation = Callable[[bytes, random.Random, Sequence[bytes]], bytes]
_MUTATIONS: tuple[Mutation, ...] = (
    *(_bytes, _cut, _without, _twice, _moved, _token, _number, _number, _word, _spliced, _lines),
)
