"""Files of users are opened by what they contain, also compressed ones and pipes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import socket
import sys
import tarfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from site_db.files.access import VARIABLE, digest, forget_pipes, open_lines, parts, read_bytes, read_text
from site_db.files.input_errors import InvalidFile

TEXT = b"".join(b"line %d of a file\n" % k for k in range(20_000))
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "lzma": partial(lzma.compress, format=lzma.FORMAT_ALONE),
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("name", ["log", "log.gz", "log.swf.txt"])
@pytest.mark.parametrize("kind", ["plain", *COMPRESSED])
def test_the_first_bytes_say_how_a_file_is_compressed_whatever_its_name(
    kind: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(COMPRESSED.get(kind, bytes)(TEXT))
    with open_lines(path) as lines:
        assert "".join(lines).encode() == TEXT
    assert read_bytes(path) == b"".join(parts(path, 1000)) == TEXT


@pytest.mark.parametrize("kind", COMPRESSED)
def test_parts_of_one_format_in_a_row_are_one_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(2 * COMPRESSED[kind](b"a\n") if kind != "lzma" else COMPRESSED[kind](b"a\na\n"))
    assert read_text(path) == "a\na\n"


@pytest.mark.parametrize("kind", COMPRESSED)
def test_a_truncated_file_has_one_sentence_with_its_format(kind: str, tmp_path: Path) -> None:
    whole, path = COMPRESSED[kind](TEXT), tmp_path / "log"
    for left_out in (1, 20, len(whole) // 2):
        path.write_bytes(whole[:-left_out])
        with pytest.raises(InvalidFile) as caught:
            read_bytes(path)
        assert str(caught.value) == f"{path}: the {kind} file is truncated; fetch it again"


@pytest.mark.parametrize("kind", COMPRESSED)
@pytest.mark.parametrize("first", [-20, 200])
def test_a_damaged_file_has_one_sentence_with_its_format(kind: str, first: int, tmp_path: Path) -> None:
    data, path = COMPRESSED[kind](TEXT), tmp_path / "log"
    path.write_bytes(data[:first] + bytes(len(data) - len(data[:first]) - 8) + data[-8:])
    with pytest.raises(InvalidFile, match=f"the {kind} file is (damaged|truncated); fetch it again"):
        read_bytes(path)


def test_an_error_raised_by_the_reader_is_not_attributed_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a line")
    with pytest.raises(OSError, match="the disk is full"), open_lines(path):
        raise OSError("the disk is full")


@pytest.mark.parametrize("kind", COMPRESSED)
def test_what_is_decompressed_is_bounded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    path = tmp_path / "bomb"
    path.write_bytes(COMPRESSED[kind](bytes(3_000_000)))
    with pytest.raises(InvalidFile):
        read_bytes(path)


@pytest.mark.parametrize(
    ("data", "format", "command"),
    [
        (b"PK\x03\x04", "zip", "unzip -p"),
        (b"PAR1", "Parquet", "read_parquet"),
        (b"7z\xbc\xaf\x27\x1c", "7z", "7z x -so"),
        (b"\x04\x22\x4d\x18", "lz4", "lz4 -dc"),
    ],
)
def test_other_formats_are_named_with_a_command_that_converts_them(
    data: bytes, format: str, command: str, tmp_path: Path
) -> None:
    path = tmp_path / "my log.swf"
    path.write_bytes(data + b"rest")
    with pytest.raises(InvalidFile) as caught:
        read_text(path)
    assert f"the file is in the format {format}, which cannot be read here" in str(caught.value)
    assert command in str(caught.value)
    assert str(caught.value).endswith(f"'{path}' > 'my log'")


@pytest.mark.parametrize("inner", ["gzip", "zstd", "tar"])
@pytest.mark.parametrize("outer", COMPRESSED)
def test_what_is_still_compressed_after_decompression_has_one_sentence(
    outer: str, inner: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.swf"
    with io.BytesIO() as archive:
        if inner == "tar":
            with tarfile.open(fileobj=archive, mode="w") as file:
                file.addfile(tarfile.TarInfo("log.swf"))
        else:
            archive.write(COMPRESSED[inner](TEXT))
        path.write_bytes(COMPRESSED[outer](archive.getvalue()))
    with pytest.raises(
        InvalidFile, match=f"in the format {outer}, and its content is in the format {inner}, "
    ):
        read_text(path)


@pytest.mark.parametrize("compressed", [bytes, gzip.compress])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_says_how_a_text_is_read(
    encoding: str, compressed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path, text = tmp_path / "log", "Zoë 𝟚\n" * 20_000
    path.write_bytes(compressed(text.encode(encoding)))
    with open_lines(path) as lines:
        assert "".join(lines) == read_text(path) == text


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"])
def test_a_text_of_wide_letters_without_a_mark_has_one_sentence_with_a_command(
    encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes("a = 1\n".encode(encoding))
    for reading in (read_text, read_bytes):
        with pytest.raises(
            InvalidFile, match=f"encoding {encoding}; convert it, as with: iconv -f {encoding} "
        ):
            reading(path)


def test_latin_1_is_refused_as_a_whole_text_and_read_in_lines_where_names_stay_different(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log"
    path.write_bytes("müller möller\n".encode("latin-1"))
    with pytest.raises(InvalidFile, match="line 1: the file is not UTF-8 text; convert it, as with: iconv"):
        read_text(path)
    with open_lines(path) as lines:
        assert [*lines] == ["müller möller\n"]


def piped(path: Path, data: bytes) -> None:
    """A thread that writes into a pipe once, as far as it is read."""

    def write() -> None:
        with suppress(BrokenPipeError):
            path.write_bytes(data)

    threading.Thread(target=write, daemon=True).start()


def test_a_pipe_is_read_once_for_all_its_readers(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    piped(pipe, gzip.compress(TEXT))
    first = digest(pipe)
    assert (read_bytes(pipe), digest(pipe)) == (TEXT, first)
    forget_pipes()
    piped(pipe, b"new")
    assert read_bytes(pipe) == b"new"


def test_a_pipe_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    piped(pipe, bytes(3_000_000))
    with pytest.raises(InvalidFile):
        read_bytes(pipe)
    forget_pipes()


def test_devices_and_sockets_are_refused(tmp_path: Path) -> None:
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(str(tmp_path / "socket"))
    for path in (Path("/dev/zero"), Path("/dev/tty"), tmp_path / "socket"):
        with pytest.raises(InvalidFile, match="this is a device or a socket; expected a file or a pipe"):
            read_bytes(path)
    bound.close()
