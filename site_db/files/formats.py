"""Formats of files by their first bytes: those that are decompressed or decoded here, and commands for the
others; and numbers, texts and time zones in cells."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import shlex
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, tzinfo
from io import BufferedIOBase, BufferedReader, RawIOBase, TextIOWrapper
from pathlib import Path
from zoneinfo import ZoneInfo

from site_db.files.input_errors import InvalidFile

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile
else:
    from backports.zstd import ZstdError, ZstdFile

DAMAGED = (EOFError, lzma.LZMAError, zlib.error, ZstdError)
"""What decompressing a damaged file raises, besides an OSError without a number."""

SUFFIXES = (".gz", ".bz2", ".xz", ".lzma", ".zst")
"""The suffixes of compressed files."""


@dataclass(frozen=True)
class Compression:
    """A format whose files have `first` at a place. One without `decompressed` is unpacked by a command."""

    name: str
    first: bytes
    decompressed: Callable[[BufferedReader], BufferedIOBase] | None
    command: str = ""
    at: int = 0

    def advice(self, path: Path, content: Compression | None = None) -> str:
        """How users unpack a file that is not decompressed here, or whose `content` is in one of these
        formats again."""
        what = "which cannot be read here; convert it"
        if content is not None:
            what = f"and its content is in the format {content.name}, not text; unpack it once"
        unpacking = f"{self.command} {shlex.quote(str(path))} > {shlex.quote(path.stem)}"
        return f"the file is in the format {self.name}, {what} with: {unpacking}"


_PARQUET_AS_CSV = """python3 -c 'import polars, sys; print(polars.read_parquet(sys.argv[1]).write_csv())'"""
_FORMATS = (
    Compression("gzip", b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw), "gzip -dc"),
    Compression("bzip2", b"BZh", lambda raw: bz2.BZ2File(raw), "bzip2 -dc"),
    Compression("xz", b"\xfd7zXZ\0", lambda raw: lzma.LZMAFile(raw), "xz -dc"),  # noqa: SIM115
    Compression("lzma", b"\x5d\0\0", lambda raw: lzma.LZMAFile(raw), "xz -dc"),  # noqa: SIM115
    Compression("zstd", b"\x28\xb5\x2f\xfd", lambda raw: ZstdFile(raw), "zstd -dc --long=31"),
    Compression("zstd", b"\x50\x2a\x4d\x18", lambda raw: ZstdFile(raw), "zstd -dc --long=31"),
    Compression("zip", b"PK\x03\x04", None, "unzip -p"),
    Compression("zip", b"PK\x05\x06", None, "unzip -p"),
    Compression("7z", b"7z\xbc\xaf\x27\x1c", None, "7z x -so"),
    Compression("lz4", b"\x04\x22\x4d\x18", None, "lz4 -dc"),
    Compression("compress (.Z)", b"\x1f\x9d", None, "uncompress -c"),
    Compression("lzip", b"LZIP", None, "lzip -dc"),
    Compression("Parquet", b"PAR1", None, _PARQUET_AS_CSV),
    Compression("tar", b"ustar\x0000", None, "tar -xOf", at=257),
    Compression("tar", b"ustar  \0", None, "tar -xOf", at=257),  # of GNU
)


def compression_of(raw: BufferedReader) -> Compression | None:
    """The format of a file by its first bytes, which are not consumed; None if it is none of these."""
    first = raw.peek(512)
    return next((each for each in _FORMATS if first.startswith(each.first, each.at)), None)


def without_suffix(path: Path) -> Path:
    """The name of what a file has, if its own name says that it is compressed."""
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path


_MARKED = {
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
"""The encoding by byte order mark; that of UTF-16 begins one of UTF-32."""
_UNMARKED = {
    "UTF-32LE": rb"[\t-~]\0\0\0", "UTF-32BE": rb"\0\0\0[\t-~]",
    "UTF-16LE": rb"[\t-~]\0[\t-~]\0", "UTF-16BE": rb"\0[\t-~]\0[\t-~]",
}  # fmt: skip


def encoding_of(raw: BufferedReader) -> str | None:
    """The encoding that a byte order mark states, other than UTF-8."""
    first = raw.peek(4)
    return next((name for mark, name in _MARKED.items() if first.startswith(mark)), None)


def unmarked_encoding(raw: BufferedReader) -> str | None:
    """The encoding of a text with two bytes or four for each letter, and no mark that states it."""
    first = raw.peek(4)
    return next((name for name, form in _UNMARKED.items() if re.match(form, first)), None)


class AsUtf8(RawIOBase):
    """A text in another encoding, as UTF-8; what cannot be decoded becomes replacement characters."""

    def __init__(self, raw: BufferedReader, encoding: str) -> None:
        self._text = TextIOWrapper(raw, encoding, errors="replace", newline="")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._text.read(max(1, len(buffer) // 4)).encode(errors="replace")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._text.close()
        super().close()


def _latin_1(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("latin-1"), error.end


ELSE_LATIN_1 = "else-latin-1"
"""How bytes that are not UTF-8 are decoded where one of them must not cost a whole log: different names stay
different."""
codecs.register_error(ELSE_LATIN_1, _latin_1)


_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
MAX_DIGITS = 4_000
"""The most digits of a whole number: Python converts none of more than 4,300."""


def is_whole(text: str) -> bool:
    """Whether it is a whole number of at least 0, which `int` converts."""
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def whole(text: str) -> int | None:
    """A whole number of up to 18 digits, also as data frames write one, 4.0; None for other texts."""
    if not text.isdigit() and (short := text.rstrip("0")).endswith("."):
        text = short[:-1]
    return int(text) if text.isdigit() and text.isascii() and len(text) <= 18 else None


def is_decimal(text: str) -> bool:
    """Whether it is a number like 12, -0.5 or 1e3, which `float` converts; it may be too great for it."""
    return _DECIMAL.fullmatch(text) is not None


def zone_named(name: str | None) -> tzinfo:
    """A time zone like Europe/Berlin; UTC without a name. Raises InvalidFile for one that this computer does
    not know."""
    if name is None or name.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        raise InvalidFile(
            f"the time zone '{name}' is not known here; expected a name like Europe/Berlin; if it is "
            "right, install the time zones with: pip install tzdata"
        ) from None


FORMULA = r"^[=@+\-\t\r\n'＝＋－＠]"
"""Matches the beginning of a formula, or of what was escaped as one."""
NUMBER = r"^[+\-][\d.,]*([eE][+\-]?\d+)?( ?%)?$"
_FORMULA, _NUMBER = re.compile(FORMULA), re.compile(NUMBER)


def escaped(text: str) -> str:
    """The text as it is written into a CSV file: spreadsheets take one that begins like a formula for one, so
    it is written after an apostrophe, as is one that begins with an apostrophe."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def unescaped(cell: str) -> str:
    """The text of which `escaped` made this cell."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) else cell
