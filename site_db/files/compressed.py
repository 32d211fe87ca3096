"""Formats of files by their first bytes: those that are decompressed here, and commands for the others."""

from __future__ import annotations

import bz2
import gzip
import lzma
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import cast

SUFFIXES = (".gz", ".bz2", ".xz", ".lzma", ".zst")
"""Of the names of compressed files."""


@dataclass(frozen=True)
class Compression:
    """A format whose files begin with `first`. One without `decompressed` is unpacked by a command."""

    name: str
    first: bytes
    decompressed: Callable[[BufferedReader], BufferedIOBase] | None
    command: str = ""

    def advice(self, path: Path) -> str:
        """How users unpack a file that is not decompressed here."""
        command = f"{self.command} {shlex.quote(str(path))} > {shlex.quote(path.stem)}"
        return f"the file is in the format {self.name}, which cannot be read here; convert it with: {command}"


def _zstd(raw: BufferedReader) -> BufferedIOBase:
    import pyarrow as pa  # takes time to load

    return cast(BufferedIOBase, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))


_PARQUET_AS_CSV = """python3 -c 'import polars, sys; print(polars.read_parquet(sys.argv[1]).write_csv())'"""
_FORMATS = (
    Compression("gzip", b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw)),
    Compression("bzip2", b"BZh", lambda raw: bz2.BZ2File(raw)),
    Compression("xz", b"\xfd7zXZ\0", lambda raw: lzma.LZMAFile(raw)),  # noqa: SIM115
    Compression("lzma", b"\x5d\0\0", lambda raw: lzma.LZMAFile(raw)),  # noqa: SIM115
    Compression("zstd", b"\x28\xb5\x2f\xfd", _zstd, "zstd -dc --long=31"),
    Compression("zstd", b"\x50\x2a\x4d\x18", _zstd, "zstd -dc --long=31"),
    Compression("zip", b"PK\x03\x04", None, "unzip -p"),
    Compression("zip", b"PK\x05\x06", None, "unzip -p"),
    Compression("7z", b"7z\xbc\xaf\x27\x1c", None, "7z x -so"),
    Compression("lz4", b"\x04\x22\x4d\x18", None, "lz4 -dc"),
    Compression("compress (.Z)", b"\x1f\x9d", None, "uncompress -c"),
    Compression("lzip", b"LZIP", None, "lzip -dc"),
    Compression("Parquet", b"PAR1", None, _PARQUET_AS_CSV),
)


def compression_of(raw: BufferedReader) -> Compression | None:
    """By the first bytes of a file, which are not consumed; None if it is in none of these formats."""
    first = raw.peek(8)
    return next((each for each in _FORMATS if first.startswith(each.first)), None)


def without_suffix(path: Path) -> Path:
    """The name of what a file has, if its own name says that it is compressed."""
    return path.with_suffix("") if path.suffix.lower() in SUFFIXES else path
