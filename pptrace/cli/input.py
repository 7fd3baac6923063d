"""Bytes from files and from standard input, with limits; whether an argument is meant as a path. What the bytes mean is
source.py's to find out."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

from pptrace.errors import LimitError, ParameterError
from pptrace.printable import printable

if TYPE_CHECKING:
    from typing import BinaryIO

EXAMPLE = "pptrace show 1f1b -P 4 -M 8"


def is_path(source: str) -> bool:
    """Whether an argument is meant as a path: it has a separator or a suffix."""
    separators = {"/", os.sep, os.altsep or os.sep}
    return any(separator in source for separator in separators) or os.path.splitext(source)[1] != ""


def files_in(folder: str) -> list[str]:
    """The JSON files of a directory, by name. Raises `OSError` where there are none."""
    found = sorted(name for name in os.listdir(folder) if name.lower().endswith(".json"))
    if not found:
        what = "a directory without .json files; name a file, or a directory with a run's traces"
        raise IsADirectoryError(21, what, folder)
    return [os.path.join(folder, name) for name in found]


def read_stdin() -> bytes:
    """All of standard input. Raises `ParameterError` where a person sits at it, or it is closed."""
    if sys.stdin is None or sys.stdin.closed:
        message = f"standard input is closed; name a schedule or a file, for example: {EXAMPLE}"
        raise ParameterError(message)
    if sys.stdin.isatty():
        message = (
            "- is standard input, and nothing is piped into it; try: pptrace trace 1f1b -P 4 -M 4 | pptrace show -"
        )
        raise ParameterError(message)
    try:
        return _limited(sys.stdin.buffer, "standard input")
    except OSError as error:  # a folder, say
        raise OSError(error.errno, error.strerror, "standard input") from None


def read_file(path: str) -> bytes:
    """All of a file. Raises `OSError`, or `LimitError` for one that is too large."""
    if "\0" in path:
        message = f"{printable(path, 60)}: a file name cannot hold a zero byte"
        raise ParameterError(message)
    if path == "-":
        return read_stdin()
    with open(path, "rb") as stream:
        if stat.S_ISDIR(os.fstat(stream.fileno()).st_mode):
            raise IsADirectoryError(21, "is a directory", path)
        try:
            return _limited(stream, path)
        except OSError as error:  # reading knows no name
            raise OSError(error.errno, error.strerror, path) from None


def _limited(stream: BinaryIO, what: str) -> bytes:
    from pptrace.formats.text import MAX_BYTES  # noqa: PLC0415  (a registered name reads nothing)

    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"{what}: more than {MAX_BYTES:,} bytes; is it the right file?"
        raise LimitError(message)
    return data
