"""The rows of a log of the Standard Workload Format, read from its bytes."""

from __future__ import annotations

from scheduler.core.arrays import Floats2, Ints

MAX_DIGITS = 15
"""The most digits of a number that is read here: divided by a power of ten, it is rounded once, as every
other reader rounds it."""
NOT_PLAIN = -1


def after_blanks(data: bytes, at: int) -> int:
    while at < len(data) and (data[at] == ord(" ") or data[at] == ord("\t")):
        at += 1
    return at


def read_rows(data: bytes, column_of: Ints, lines: Ints, values: Floats2) -> int:
    """The number of rows, whose line numbers, from 1 on, are written to `lines`, and their fields to
    `values`: field k into row `column_of[k]`, unless that is negative.

    NOT_PLAIN if a line is not plain: neither blank, nor a comment, nor as many numbers as `column_of` has, in
    plain decimal notation with at most MAX_DIGITS digits.
    """
    n, line, at, end = 0, 0, 0, len(data)
    while at < end:
        line += 1
        at = after_blanks(data, at)
        if at < end and data[at] == ord(";"):
            while at < end and data[at] != ord("\n"):
                at += 1
        if at == end or data[at] == ord("\n"):
            at += 1
            continue
        for k in range(len(column_of)):
            at = after_blanks(data, at)
            is_negative = at < end and data[at] == ord("-")
            if is_negative:
                at += 1
            number, n_digits, divisor = 0, 0, 1.0
            while at < end and ord("0") <= data[at] <= ord("9"):
                number = 10 * number + (data[at] - ord("0"))
                n_digits += 1
                at += 1
            if n_digits == 0:
                return NOT_PLAIN
            if at < end and data[at] == ord("."):
                at += 1
                while at < end and ord("0") <= data[at] <= ord("9"):
                    number = 10 * number + (data[at] - ord("0"))
                    n_digits += 1
                    divisor *= 10.0
                    at += 1
                if divisor == 1.0:
                    return NOT_PLAIN
            if n_digits > MAX_DIGITS:
                return NOT_PLAIN
            if at < end and data[at] != ord(" ") and data[at] != ord("\t") and data[at] != ord("\n"):
                return NOT_PLAIN
            if is_negative and number == 0:
                return NOT_PLAIN  # the sign of a zero
            if column_of[k] >= 0:
                value = number / divisor
                values[column_of[k], n] = -value if is_negative else value
        at = after_blanks(data, at)
        if at < end and data[at] != ord("\n"):
            return NOT_PLAIN
        at += 1
        lines[n] = line
        n += 1
    return n
