"""How single fields of Slurm's messages are packed: numbers in network order, counted texts and arrays,
bitmaps.

The alias of a type (`U32`, `Text`, ...) carries how a field of it is packed; `layouts` reads it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple, Protocol

NO_VALUE_8, NO_VALUE_16, NO_VALUE_32, NO_VALUE_64 = 0xFE, 0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE
"""What stands for "not given" in a number."""
INFINITE_16, INFINITE_32 = 0xFFFF, 0xFFFFFFFF
LARGEST_BITMAP = 1 << 24
"""In bits; a larger one is malformed."""


class ProtocolError(Exception):
    """A message that cannot be packed or read. The text is one sentence."""


class Packed(Protocol):
    """How a field is packed. `version` is the protocol's."""

    def write(self, value: Any, version: int) -> bytes:
        """Raises ProtocolError for a value that cannot be packed."""

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        """The value that begins at `at`, and where it ends. Raises ProtocolError for a malformed one, and
        struct.error if the data end before."""


class Number:
    """An integer. Its format is that of `struct`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._struct = struct.Struct(f">{code}")

    def write(self, value: int, version: int) -> bytes:
        try:
            return self._struct.pack(value)
        except struct.error:
            raise ProtocolError(f"{value} does not fit into {8 * self._struct.size} bits") from None

    def read(self, data: bytes, at: int, version: int) -> tuple[int, int]:
        return self._struct.unpack_from(data, at)[0], at + self._struct.size


_COUNT: Final = Number("I")


def _end_of(data: bytes, at: int, n_bytes: int) -> int:
    end = at + n_bytes
    if end > len(data):
        raise ProtocolError(f"a field of {n_bytes:,} bytes begins where {len(data) - at:,} are left")
    return end


class _Text:
    """Bytes of UTF-8 that end with a zero byte, after their number. None has no bytes, not even that one."""

    def write(self, value: str | None, version: int) -> bytes:
        if value is None:
            return b"\0\0\0\0"
        try:
            packed = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise ProtocolError(f"the text {value[:40]!r} has halves of characters") from None
        if b"\0" in packed:
            raise ProtocolError(f"the text {value[:40]!r} has a zero byte")
        return _COUNT.write(len(packed) + 1, version) + packed + b"\0"

    def read(self, data: bytes, at: int, version: int) -> tuple[str | None, int]:
        size, at = _COUNT.read(data, at, version)
        if not size:
            return None, at
        end = _end_of(data, at, size)
        if data.find(b"\0", at, end) != end - 1:
            raise ProtocolError("a text does not end with its first zero byte")
        return data[at : end - 1].decode("utf-8", "surrogateescape"), end


class _Octets:
    """Any bytes, after their number."""

    def write(self, value: bytes, version: int) -> bytes:
        return _COUNT.write(len(value), version) + value

    def read(self, data: bytes, at: int, version: int) -> tuple[bytes, int]:
        size, at = _COUNT.read(data, at, version)
        end = _end_of(data, at, size)
        return data[at:end], end


class Numbers:
    """Integers of one format, after their number."""

    def __init__(self, code: str) -> None:
        self.code, self._size = code, struct.calcsize(f">{code}")

    def write(self, value: Sequence[int], version: int) -> bytes:
        try:
            return struct.pack(f">I{len(value)}{self.code}", len(value), *value)
        except struct.error:
            raise ProtocolError(f"one of {value} does not fit into {8 * self._size} bits") from None

    def read(self, data: bytes, at: int, version: int) -> tuple[tuple[int, ...], int]:
        count, at = _COUNT.read(data, at, version)
        end = _end_of(data, at, count * self._size)
        return struct.unpack_from(f">{count}{self.code}", data, at), end


class Listed:
    """Values packed alike, after their number, which is packed as `counted`. If the number is a word, None is
    a list that is not given."""

    def __init__(self, each: Packed, counted: str = "I") -> None:
        self.each, self._count = each, Number(counted)

    def write(self, value: Sequence[Any] | None, version: int) -> bytes:
        if value is None:
            return self._count.write(NO_VALUE_32, version)
        packed = [self.each.write(one, version) for one in value]
        return b"".join([self._count.write(len(packed), version), *packed])

    def read(self, data: bytes, at: int, version: int) -> tuple[tuple[Any, ...] | None, int]:
        count, at = self._count.read(data, at, version)
        if count == NO_VALUE_32:
            return None, at
        _end_of(data, at, count)  # each takes a byte or more
        found = []
        for _ in range(count):
            value, at = self.each.read(data, at, version)
            found.append(value)
        return tuple(found), at


class Flagged:
    """What a byte announces: 1 if it follows, 0 if it is not given (None)."""

    def __init__(self, content: Packed) -> None:
        self.content = content

    def write(self, value: Any, version: int) -> bytes:
        return b"\0" if value is None else b"\1" + self.content.write(value, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        flag, at = _FLAG.read(data, at, version)
        return self.content.read(data, at, version) if flag else (None, at)


_FLAG: Final = Number("B")


class Table:
    """Rows of numbers, packed column by column, after their number, which is packed as `counted`: "these CPUs
    on each of so many nodes". Without rows, no column is packed."""

    def __init__(self, counted: str, *columns: str) -> None:
        self._count = Number(counted)
        self.columns = [Numbers(code) for code in columns]

    def write(self, value: Sequence[tuple[int, ...]], version: int) -> bytes:
        columns = zip(self.columns, zip(*value, strict=True), strict=False)
        packed = [column.write(numbers, version) for column, numbers in columns]
        return b"".join([self._count.write(len(value), version), *packed])

    def read(self, data: bytes, at: int, version: int) -> tuple[tuple[tuple[int, ...], ...], int]:
        count, at = self._count.read(data, at, version)
        found = []
        for column in self.columns if count else ():
            numbers, at = column.read(data, at, version)
            if len(numbers) != count:
                raise ProtocolError(f"a table of {count:,} rows has a column of {len(numbers):,}")
            found.append(numbers)
        return tuple(zip(*found, strict=True)), at


class Bitmap(NamedTuple):
    """Bits, of which the first is the lowest of `mask`."""

    size: int
    mask: int

    @classmethod
    def of(cls, size: int, places: Sequence[int]) -> Bitmap:
        return cls(size, sum(1 << place for place in set(places)))

    def places(self, first: int = 0, after: int | None = None) -> list[int]:
        """The bits that are set from `first` on and before `after`, counted from `first`."""
        count = (self.size if after is None else after) - first
        part = (self.mask >> first) & ((1 << count) - 1)
        return [place for place in range(part.bit_length()) if part >> place & 1]


_HEXADECIMAL: Final = re.compile("0x[0-9A-F]+").fullmatch


def _digits(bitmap: Bitmap) -> str:
    return f"0x{bitmap.mask:0{(bitmap.size + 3) // 4}X}"


class _Bits:
    """A bitmap: its size, and its bits as text in hexadecimal digits. None is a size of its own."""

    def write(self, value: Bitmap | None, version: int) -> bytes:
        if value is None:
            return _COUNT.write(NO_VALUE_32, version)
        return _COUNT.write(value.size, version) + _TEXT.write(_digits(value), version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Bitmap | None, int]:
        size, at = _COUNT.read(data, at, version)
        if size == NO_VALUE_32:
            return None, at
        digits, at = _TEXT.read(data, at, version)
        if size > LARGEST_BITMAP or digits is None or not _HEXADECIMAL(digits):
            raise ProtocolError(
                f"a bitmap of {size:,} bits is not in hexadecimal digits: {(digits or '')[:40]!r}"
            )
        found = Bitmap(size, int(digits, 16))
        if _digits(found) != digits or found.mask >> size:
            raise ProtocolError(f"a bitmap of {size:,} bits has others: {digits[:40]!r}")
        return found, at


class Within:
    """A record inside a field of bytes, with the size of the field once more before it. None is a size of
    0."""

    def __init__(self, content: Packed) -> None:
        self.content = content

    def write(self, value: Any, version: int) -> bytes:
        if value is None:
            return b"\0\0\0\0"
        packed = self.content.write(value, version)
        return _COUNT.write(len(packed), version) + _OCTETS.write(packed, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        size, at = _COUNT.read(data, at, version)
        if not size:
            return None, at
        packed, at = _OCTETS.read(data, at, version)
        value, end = self.content.read(packed, 0, version)
        if end != len(packed) or size != len(packed):
            raise ProtocolError(f"a field of {size:,} bytes has {len(packed):,}, of which {end:,} were read")
        return value, at


_TEXT: Final = _Text()
_OCTETS: Final = _Octets()

U8 = Annotated[int, Number("B")]
U16 = Annotated[int, Number("H")]
U32 = Annotated[int, Number("I")]
U64 = Annotated[int, Number("Q")]
Time = Annotated[int, Number("q")]
"""Seconds since 1970 in UTC."""
Text = Annotated[str | None, _TEXT]
Octets = Annotated[bytes, _OCTETS]
U16s = Annotated[tuple[int, ...], Numbers("H")]
U32s = Annotated[tuple[int, ...], Numbers("I")]
U64s = Annotated[tuple[int, ...], Numbers("Q")]
Texts = Annotated[tuple[str | None, ...], Listed(_TEXT)]
Bits = Annotated[Bitmap | None, _Bits()]
