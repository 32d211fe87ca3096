"""The rows of a log of the Standard Workload Format, read from its bytes."""

from __future__ import annotations

from scheduler.compiled import FixedBytes, Floats, Floats2, Ints, compiled

MOST_DIGITS = 15
"""A number of so many digits, divided by a power of ten, is rounded once, as every other reader rounds it."""
NOT_PLAIN = -1

_TAB, _NEWLINE, _SPACE, _MINUS, _POINT, _ZERO, _NINE, _SEMICOLON = 9, 10, 32, 45, 46, 48, 57, 59


@compiled
def read_rows(data: FixedBytes, column_of: Ints, powers_of_ten: Floats, lines: Ints, values: Floats2) -> int:
    """The number of rows, whose line numbers, from 1 on, are written to `lines`, and their fields to
    `values`: field k into row `column_of[k]`, unless that is negative.

    NOT_PLAIN if a line is not plain: neither blank, nor a comment, nor as many numbers as `column_of` has, in
    plain decimal notation with at most MOST_DIGITS digits.
    """
    n_fields, end = len(column_of), len(data)
    n, line, at = 0, 0, 0
    while at < end:
        line += 1
        while at < end and (data[at] == _SPACE or data[at] == _TAB):
            at += 1
        if at == end:
            break
        if data[at] == _SEMICOLON:
            while at < end and data[at] != _NEWLINE:
                at += 1
            at += 1
            continue
        if data[at] == _NEWLINE:
            at += 1
            continue
        for k in range(n_fields):
            while at < end and (data[at] == _SPACE or data[at] == _TAB):
                at += 1
            is_negative = at < end and data[at] == _MINUS
            if is_negative:
                at += 1
            number, n_digits, n_decimals = 0, 0, 0
            while at < end and _ZERO <= data[at] <= _NINE:
                number = number * 10 + (int(data[at]) - _ZERO)
                n_digits += 1
                if n_digits > MOST_DIGITS:
                    return NOT_PLAIN
                at += 1
            if n_digits == 0:
                return NOT_PLAIN
            if at < end and data[at] == _POINT:
                at += 1
                while at < end and _ZERO <= data[at] <= _NINE:
                    number = number * 10 + (int(data[at]) - _ZERO)
                    n_decimals += 1
                    if n_digits + n_decimals > MOST_DIGITS:
                        return NOT_PLAIN
                    at += 1
                if n_decimals == 0:
                    return NOT_PLAIN
            if at < end and not (data[at] == _SPACE or data[at] == _TAB or data[at] == _NEWLINE):
                return NOT_PLAIN
            if is_negative and number == 0:
                return NOT_PLAIN  # the sign of a zero
            column = column_of[k]
            if column >= 0:
                value = float(number)
                if n_decimals:
                    value /= powers_of_ten[n_decimals]
                values[column, n] = -value if is_negative else value
        while at < end and (data[at] == _SPACE or data[at] == _TAB):
            at += 1
        if at < end and data[at] != _NEWLINE:
            return NOT_PLAIN
        at += 1
        lines[n] = line
        n += 1
    return n
