"""From bytes to lines of text, for the readers of plain-text formats: limits, encoding, line ends, refusal of control
characters, and places in error messages. It knows no format."""

from __future__ import annotations

import gc
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from pptrace.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 256 * 1024 * 1024
"""Larger files are refused unread."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


@contextmanager
def without_collector() -> Iterator[None]:
    """Pause the cycle collector while millions of small tuples are made, none of them in a cycle: it would take half of
    the time, walking them all again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def refuse(line: int, column: int, message: str) -> NoReturn:
    """Raise `FormatError` for a place (both counted from 1)."""
    raise FormatError(f"line {line}, column {column}: {message}")


def shown(text: str, most: int = 40) -> str:
    """Untrusted text for a message: quoted, control characters made visible, cut where it is long."""
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def lines_of(data: bytes, what: str) -> list[str]:
    """The lines of `data` (UTF-8, with or without a byte order mark; LF, CRLF or CR), without their ends and without
    empty lines at the end.

    Raises `LimitError` for more than `MAX_BYTES`, `FormatError` with the place for bytes that are not UTF-8 and for
    control characters (tabs aside).
    """
    if len(data) > MAX_BYTES:
        message = f"{what} has {len(data):,} bytes, over the limit of {MAX_BYTES:,}; is it the right file?"
        raise LimitError(message)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        refuse(1, 1, f"this is UTF-16; save {what} as UTF-8")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line, column = _place(before, len(before))
        refuse(line, column, f"byte 0x{data[error.start]:02x} is not UTF-8; {what} is plain text")
    text = text.removeprefix("\ufeff")
    bad = _CONTROL.search(text)
    if bad:
        line, column = _place(text, bad.start())
        refuse(line, column, f"control character {bad[0]!r}; {what} is plain text")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def _place(text: str, index: int) -> tuple[int, int]:
    """Line and column, counted from 1, of a place in raw text."""
    before = text[:index].replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    return before.count("\n") + 1, len(before) - before.rfind("\n")
