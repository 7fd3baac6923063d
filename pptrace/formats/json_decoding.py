"""From JSON text to structs, strictly: every error has its place (`$.events[3].end`, or line and column), and no key stands
twice. Shared by all formats that are JSON; it knows the fields of none."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from pptrace.errors import FormatError, LimitError
from pptrace.formats.text import MAX_BYTES
from pptrace.formats.trace_structs import SCHEMA
from pptrace.printable import printable

T = TypeVar("T")
REMEDY = "`pptrace schema` prints the format"


def decoded(
    data: bytes, shape: type[T], source: str, *, line: int = 0, unique_keys: bool = True, remedy: str = REMEDY
) -> T:
    """`data` as a struct of type `shape`. Raises `FormatError` with the place for what is not JSON, for a duplicate key
    and for a missing, mistyped or out-of-range field. `line` is the number of the line, in formats of many.
    `unique_keys=False`: whoever reads on looks for duplicate keys where they matter."""
    prefix = f"{source}: line {line}: " if line else f"{source}: "
    if len(data) > MAX_BYTES:
        message = f"{prefix}{len(data):,} bytes are over the limit of {MAX_BYTES:,}; is it the right file?"
        raise LimitError(message)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"{prefix}byte {error.start} is not UTF-8; a trace is UTF-8 JSON"
        raise FormatError(message) from None
    try:
        found = msgspec.json.decode(text, type=shape)
        if unique_keys:
            _refuse_duplicate_keys(text, prefix)
    except msgspec.ValidationError as error:
        _refuse_invalid(error, prefix, remedy)
    except msgspec.DecodeError as error:
        _refuse_broken(error, text, prefix, 0 if line else 1)
    except RecursionError:
        message = f"{prefix}lists in lists without end; {remedy}"
        raise FormatError(message) from None
    return found


def _refuse_invalid(error: msgspec.ValidationError, prefix: str, remedy: str) -> NoReturn:
    """`Expected `int`, got `str` - at `$.events[3].end`` becomes `$.events[3].end: expected int, got str`."""
    what, _, place = str(error).partition(" - at ")
    what = printable(what.replace("`", ""), 300)
    where = place.strip("`") or "$"
    if where == "$.schema" or "missing required field schema" in what:
        what = f"the schema must be {SCHEMA!r}; is it a pptrace trace, of this version"
        raise FormatError(f"{prefix}{where}: {what}?") from None
    raise FormatError(f"{prefix}{where}: {what[:1].lower()}{what[1:]}; {remedy}") from None


def _refuse_broken(error: msgspec.DecodeError, text: str, prefix: str, first_line: int) -> NoReturn:
    what = str(error).removeprefix("JSON is malformed: ")
    found = re.search(r" \(byte (\d+)\)$", what)
    if found is None:
        raise FormatError(f"{prefix}not JSON: the input ends before the value does; is the file complete?") from None
    before = text.encode()[: int(found[1])].decode(errors="replace")
    column = len(before) - before.rfind("\n")
    place = f"line {before.count(chr(10)) + 1}, column {column}" if first_line else f"column {column}"
    special = re.match(r"-?(NaN|Infinity)", text[len(before) :])
    reason = f"{special[0]} is not a number that JSON has" if special else what[: found.start()]
    raise FormatError(f"{prefix}{place}: not JSON: {reason}") from None


class _Doubled(dict[str, Any]):
    """A JSON object that has one key twice."""

    key = ""


def _refuse_duplicate_keys(text: str, prefix: str) -> None:
    if not _has_duplicate_keys(text):
        return

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        doubled = _Doubled(found)
        keys = [key for key, _ in pairs]
        doubled.key = next(key for key in keys if keys.count(key) > 1)
        return doubled

    todo = [("$", json.loads(text, object_pairs_hook=note, parse_int=str))]
    while todo:
        place, value = todo.pop()
        if isinstance(value, _Doubled):
            message = f"{prefix}{place}.{value.key[:60]}: the key stands there twice; leave one"
            raise FormatError(message)
        if isinstance(value, dict):
            todo += [(f"{place}.{key}", child) for key, child in reversed(value.items())]
        elif isinstance(value, list):
            todo += [(f"{place}[{i}]", child) for i, child in reversed(list(enumerate(value)))]


def _has_duplicate_keys(text: str) -> bool:
    """Whether some object has a key twice. Objects are dropped as soon as they have been looked at, and numbers, which may
    have thousands of digits, are not converted."""
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) != len(pairs)

    json.loads(text, object_pairs_hook=look, parse_int=str)
    return found
