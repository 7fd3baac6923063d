"""Costs files: TOML that gives durations and sizes per stage. Text in, exact numbers out; what they are costs of (how many
stages there are) is checked where the schedule is known.

    layers = 30                     of the model, spread over the stages; or a list with each stage's. A single number
                                    below (but comm, boundary_bytes) is then that of one layer; a list stays one per stage
    forward = [6.5, 7, 7, 9]        time of one op; a number, or a list with one value per stage
    backward = [13, 14, 14, 18]     the full backward, I + W
    weight_grad = [6, 7, 7, 8]      the part of it that is W
    comm = 0.5                      latency; a number, or a list with one value per link between ranks
    unit = "us"                     what the times are in; shown, not converted
    microbatch_scale = [1, "3/4"]   factor per microbatch, where they are unequal; a fraction stands in quotes
    activation_bytes = "1.5GiB"     and boundary_, weight_, gradient_, optimizer_bytes: a size, or a list per stage
    memory_delta = {F = "34MiB", I = "-2MiB", W = "-32MiB"}     instead of activation_bytes: what each op adds
"""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pptrace.costs import Sizes, Values
from pptrace.errors import FormatError, ParameterError
from pptrace.rationals import MAX_DIGITS, parse_bytes, parse_rational, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMES = ("forward", "backward", "weight_grad")
_SIZES = {
    "activation_bytes": "activation",
    "boundary_bytes": "boundary",
    "weight_bytes": "weights",
    "gradient_bytes": "gradients",
    "optimizer_bytes": "optimizer",
}
_KEYS = (*_TIMES, "comm", "layers", "unit", "microbatch_scale", *_SIZES, "memory_delta")
_MAX_LIST = 1_000_000
T = TypeVar("T")


class CostsFile(NamedTuple):
    """What a costs file says; None where it is silent. Times are per op: one number, or a value per stage. `layers` is one
    total, or a number per stage."""

    layers: tuple[int, ...] = ()
    forward: Values | None = None
    backward: Values | None = None
    weight_grad: Values | None = None
    comm: tuple[Fraction, ...] | None = None
    unit: str = ""
    microbatch_scale: tuple[Fraction, ...] = ()
    sizes: Sizes | None = None

    @property
    def num_stages(self) -> int | None:
        """How many stages the lists are for, or None where every value is one number."""
        lists = [self.layers, *(v.numbers for v in (self.forward, self.backward, self.weight_grad) if v)]
        return max((len(numbers) for numbers in lists if len(numbers) > 1), default=None)


def read(data: bytes, *, source: str) -> CostsFile:
    """Read a costs file; `source` names it in messages.

    Raises `FormatError` that begins with file and place: broken TOML, an unknown key (with the nearest one), a value that is
    not a number, lists that do not have one length.
    """
    table = _parse(data, source)
    for key in table:
        if key not in _KEYS:
            _refuse_key(source, key, _KEYS)
    times = {name: _times(table, name, source) for name in _TIMES}
    layers = _numbers(table, "layers", source, _whole) or ()
    lengths = {"layers": len(layers)} | {name: len(v.numbers) for name, v in times.items() if v is not None}
    _require_one_length(lengths, source)
    unit = table.get("unit", "")
    if not isinstance(unit, str) or len(unit) > 20:
        message = f'{source}: unit: must be a text of at most 20 letters, for example "us"'
        raise FormatError(message)
    return CostsFile(
        layers=layers,
        **times,
        comm=_numbers(table, "comm", source, _rational),
        unit=unit,
        microbatch_scale=_numbers(table, "microbatch_scale", source, _rational) or (),
        sizes=_sizes(table, source),
    )


class _Exact(str):
    """A float of the file, kept as its text: nothing is rounded."""

    __slots__ = ()


def _parse(data: bytes, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"), parse_float=_Exact)
    except UnicodeDecodeError as error:
        message = f"{source}: byte {error.start} is not UTF-8; a costs file is TOML text"
    except tomllib.TOMLDecodeError as error:
        found = re.fullmatch(r"(.*) \(at (.*)\)", str(error), re.DOTALL)
        place, what = (found[2], found[1]) if found else ("somewhere", str(error))
        message = f"{source}: {place}: {what}; a costs file is TOML, for example forward = [1, 1.5]"
    except ValueError:  # an integer of more digits than Python converts
        message = f"{source}: a number is too long; a number has at most {MAX_DIGITS} digits"
    except RecursionError:
        message = f"{source}: lists in lists without end; give one list per key"
    raise FormatError(message) from None


def _times(table: dict[str, Any], name: str, source: str) -> Values | None:
    numbers = _numbers(table, name, source, _rational)
    if numbers is None:
        return None
    for i, number in enumerate(numbers):
        if number < 0 or (number == 0 and name != "weight_grad"):
            place = f"{name}[{i}]" if isinstance(table[name], list) else name
            least = "zero or more" if name == "weight_grad" else "more than zero"
            message = f"{source}: {place}: a time must be {least}, got {text_of(number)}"
            raise FormatError(message)
    return Values(numbers, _per(table[name]))


def _per(given: object) -> str:
    """A list has a value per stage; a single number is one op's, whichever."""
    return "stage" if isinstance(given, list) else "op"


def _numbers(
    table: dict[str, Any], name: str, source: str, convert: Callable[[object, str], T]
) -> tuple[T, ...] | None:
    if name not in table:
        return None
    given = table[name]
    if not isinstance(given, list):
        return (convert(given, f"{source}: {name}"),)
    if not 0 < len(given) <= _MAX_LIST:
        message = f"{source}: {name}: the list is {'too long' if given else 'empty'}; give one number, or one per stage"
        raise FormatError(message)
    return tuple(convert(value, f"{source}: {name}[{i}]") for i, value in enumerate(given))


def _rational(value: object, where: str) -> Fraction:
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 10**MAX_DIGITS:
            message = f"{where}: the number is too long; a number has at most {MAX_DIGITS} digits"
            raise FormatError(message)
        return Fraction(value)
    if isinstance(value, str):
        return _converted(parse_rational, value.replace("_", "") if isinstance(value, _Exact) else value, where)
    message = f'{where}: must be a number (or a fraction in quotes, "3/2"), got {_kind(value)}'
    raise FormatError(message)


def _whole(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9:
        return value
    shown = value if isinstance(value, (int, _Exact)) and not isinstance(value, bool) else _kind(value)
    message = f"{where}: must be a whole number of layers, at least 1, got {str(shown)[:40]}"
    raise FormatError(message)


def _bytes(value: object, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**MAX_DIGITS:
        return value
    if isinstance(value, str):
        return _converted(parse_bytes, value, where)
    message = f'{where}: must be a size in bytes, 4096 or "1.5GiB", got {_kind(value)}'
    raise FormatError(message)


def _converted(convert: Callable[[str, str], T], text: str, where: str) -> T:
    try:
        return convert(text, where)
    except ParameterError as error:
        raise FormatError(str(error)) from None


def _sizes(table: dict[str, Any], source: str) -> Sizes | None:
    given = {
        part: Values(tuple(map(Fraction, numbers)), _per(table[key]))
        for key, part in _SIZES.items()
        if (numbers := _numbers(table, key, source, _bytes)) is not None
    }
    if "memory_delta" in table:
        if "activation" in given:
            message = f"{source}: memory_delta and activation_bytes say the same thing; give one of them"
            raise FormatError(message)
        given["activation"], given["after_input"] = _memory_delta(table["memory_delta"], source)
    return Sizes(**given) if given else None


def _memory_delta(given: object, source: str) -> tuple[Values, Values]:
    """(M_B, M_W) of the zero-bubble papers from what F, I and W add, a value or one per stage: M_B, M_W - M_B, -M_W."""
    if not isinstance(given, dict) or set(given) != {"F", "I", "W"}:
        message = f"{source}: memory_delta: must be a table of three, for example {{F = 34, I = -2, W = -32}}"
        raise FormatError(message)
    where = f"{source}: memory_delta"
    added = {key: _numbers(given, key, where, _signed_bytes) or () for key in ("F", "I", "W")}
    _require_one_length({f"memory_delta.{key}": len(numbers) for key, numbers in added.items()}, source)
    most = max(map(len, added.values()))
    saved, halved, freed = (numbers * most if len(numbers) == 1 else numbers for numbers in added.values())
    for f, i, w in zip(saved, halved, freed, strict=True):
        if f + i + w != 0 or f < 0 or w > 0:
            message = f"{where}: F + I + W must be 0, with F >= 0 and W <= 0: what F saves, I and W release; got {f}, {i}, {w}"
            raise FormatError(message)
    per = "stage" if any(isinstance(numbers, list) for numbers in given.values()) else "op"
    return Values(tuple(map(Fraction, saved)), per), Values(tuple(Fraction(-w) for w in freed), per)


def _signed_bytes(value: object, where: str) -> int:
    if isinstance(value, str) and value.startswith("-"):
        return -_bytes(value[1:], where)
    if isinstance(value, int) and not isinstance(value, bool) and value < 0:
        return -_bytes(-value, where)
    return _bytes(value, where)


def _kind(value: object) -> str:
    names = {bool: "true or false", dict: "a table", list: "a list", str: "a text", int: "a number out of range"}
    return names.get(type(value), f"a {type(value).__name__}")


def _require_one_length(lengths: dict[str, int], source: str) -> None:
    longer = {name: length for name, length in lengths.items() if length > 1}
    if len(set(longer.values())) > 1:
        (first, wanted), *others = longer.items()
        name, length = next((n, count) for n, count in others if count != wanted)
        message = (
            f"{source}: {name} has {length} values and {first} has {wanted}; give every list one value per stage, "
            f"{wanted} here"
        )
        raise FormatError(message)


def _refuse_key(source: str, key: str, known: tuple[str, ...]) -> None:
    from pptrace.schedules.registry import nearest  # noqa: PLC0415  (only where something was misspelt)

    near = nearest(key, known)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
    message = f"{source}: unknown key {key[:40]!r}; {hint}"
    raise FormatError(message)
