"""The goldens and inputs that the tests compare with: one compressed file, read once into memory.

Paths are those of the archive: "goldens/oracle_table.csv", "inputs/schedules/...". tests/data/README.md has the sources.
"""

from __future__ import annotations

import csv
import io
import tarfile
from functools import cache
from pathlib import Path

ARCHIVE = Path(__file__).parent / "data" / "goldens.tar.xz"


@cache
def _files() -> dict[str, bytes]:
    files = {}
    with tarfile.open(ARCHIVE, "r:xz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                files[member.name] = content.read()
    return files


def names(prefix: str = "") -> list[str]:
    """All paths that begin with `prefix`, sorted. None is a mistake in the test, so it raises."""
    found = sorted(name for name in _files() if name.startswith(prefix))
    if not found:
        message = f"no golden begins with {prefix!r}"
        raise FileNotFoundError(message)
    return found


def data(path: str) -> bytes:
    """The bytes of one file."""
    if path not in _files():
        message = f"no golden is called {path!r}"
        raise FileNotFoundError(message)
    return _files()[path]


def text(path: str) -> str:
    """One file as text, its line ends as they are (PyTorch's CSV has CRLF)."""
    return data(path).decode("utf-8")


@cache
def _rows(path: str) -> tuple[dict[str, str], ...]:
    return tuple(csv.DictReader(io.StringIO(text(path), newline="")))


def rows(path: str) -> list[dict[str, str]]:
    """The rows of a CSV file with a header, every value as text."""
    return list(_rows(path))
