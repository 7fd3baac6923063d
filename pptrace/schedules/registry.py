"""The registry of schedules: what an entry says of itself, the literal dict that finds it, and the way from a name and
parameters to a Schedule.

Adding a schedule is one file with an `ENTRIES` dict and one line per name here; tests, listings, help and completion pick it
up by themselves.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pptrace.deadlock import DeadlockError
from pptrace.errors import LimitError, ParameterError
from pptrace.model import positive

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pptrace.model import Schedule

REGISTRY: dict[str, str] = {
    "naive": "fill_drain",
    "gpipe": "fill_drain",
    "1f1b": "one_f_one_b",
    "eager-1f1b": "one_f_one_b",
    "interleaved": "interleaved",
    "looped-bfs": "interleaved",
    "zb-h1": "zero_bubble",
    "zb-h2": "zero_bubble",
    "interleaved-zb": "zero_bubble",
    "zb-v": "zb_v",
    "v-half": "v_shaped",
    "v-min": "v_shaped",
    "dualpipe": "dualpipe",
    "dualpipev": "dualpipe",
    "chimera": "chimera",
    "wave": "wave",
    "pipedream": "pipedream",
    "pipedream-2bw": "pipedream",
}
"""Name to the module of this package that holds it, in the order of listings."""

DEFAULT_MAX_OPS = 2_000_000


class Params(NamedTuple):
    """The sizes and choices that make a schedule. `num_chunks`, `group`, `order` are None where they were not given.

    `num_steps` is only for schedules without a flush, whose steps run into one another; the others are made one step long
    and repeated by `updates.with_updates`.
    """

    num_ranks: int
    num_microbatches: int
    num_chunks: int | None = None
    group: int | None = None
    order: str | None = None
    num_steps: int = 1


class Condition(NamedTuple):
    """One assumption of a closed form, and whether it holds here."""

    text: str
    holds: bool


class EqualCosts(NamedTuple):
    """Exact costs of one microbatch on one rank when all ranks are alike (what closed forms are written in).

    `activation` (M_B) and `kept_for_w` (M_W) are the sizes that one microbatch holds on one rank, before and after its I;
    None where no sizes are given. `overlap` is what an overlapped pair lasts, as in `Costs`; `update` is the time of one
    rank's REDUCE and STEP together, which delays what follows where there is no flush.
    """

    f: Fraction
    b: Fraction
    w: Fraction
    c: Fraction
    activation: Fraction | None = None
    kept_for_w: Fraction | None = None
    overlap: str | Fraction = "sum"
    update: Fraction = Fraction(0)

    @property
    def i(self) -> Fraction:
        return self.b - self.w

    @property
    def pair(self) -> Fraction | None:
        """What an overlapped pair lasts (FB), per microbatch and rank as f and b are; None where it is two ops in turn."""
        if isinstance(self.overlap, Fraction):
            return self.overlap
        return {"sum": self.f + self.b, "max": max(self.f, self.b)}.get(self.overlap)


class Claim(NamedTuple):
    """A published closed form of one metric for one (schedule, params, costs), and the conditions under which it holds.

    `metric` is "elapsed", "bubble_time", "bubble_over_elapsed", "bubble_over_ideal" or "longest_span" (one value), or
    "peak_activations" or "peak_activation_bytes" (one value per rank). `split` and `fused` orders say what their costs
    mean in their own conditions.
    """

    metric: str
    formula: str
    values: tuple[Fraction, ...]
    conditions: tuple[Condition, ...] = ()
    of_order: bool = False
    """Whether it follows from the order alone, whatever the ops cost (peaks of orders that do not split B)."""
    of_sizes: bool = False
    """Whether `values` are made of sizes only, so that they can be shown even where stages are unequal."""
    largest: bool = False
    """Whether the one value is that of the largest of the ranks, and says nothing of the others."""


class Entry(NamedTuple):
    """What the registry knows of one schedule. `bubble` and `peak` are the closed forms as text, for listings."""

    name: str
    summary: str
    build: Callable[[Params], Schedule]
    constraints: str
    makespan: str
    bubble: str
    peak: str
    source: str
    claims: Callable[[Params, EqualCosts], list[Claim]]
    check: Callable[[Params], None] | None = None
    options: tuple[str, ...] = ()
    """Which of "chunks", "group", "order" it takes."""
    default_chunks: int = 1
    splits: bool = False
    """Whether it runs I and W, or overlaps: decides the default costs."""
    asynchronous: bool = False
    remedy: Callable[[Params], str] | None = None
    """What to do where these parameters deadlock; empty where nothing is to be done."""
    better: Callable[[Params], Params | None] | None = None
    """Parameters worth comparing with where these are legal but may waste time, or None."""
    extra_work: Callable[[Params], int] | None = None
    """Where making the order takes more than linear time: how many ops more could be made instead, for the limit."""
    beside: str = ""
    """What it is often taken for, and how the two differ; empty where nothing is."""


def names() -> list[str]:
    """The names of all registered schedules, in the order of listings."""
    return list(REGISTRY)


def entry(name: str) -> Entry:
    """The entry of a registered name; `ParameterError` with the nearest name otherwise."""
    if name not in REGISTRY:
        near = nearest(name, names())
        hint = f"did you mean {near}?" if near else "`pptrace schedules` lists the names"
        message = f"no schedule is called {name[:60]!r}; {hint}"
        raise ParameterError(message)
    module = import_module(f"pptrace.schedules.{REGISTRY[name]}")
    found: Entry = module.ENTRIES[name]
    return found


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known word that is most like `name`, or None."""
    from difflib import get_close_matches  # noqa: PLC0415  (only where something was misspelt)

    squeezed = {"".join(filter(str.isalnum, word.lower())): word for word in known}
    close = get_close_matches("".join(filter(str.isalnum, name[:60].lower())), list(squeezed), 1, 0.5)
    return squeezed[close[0]] if close else None


def build(name: str, params: Params, *, max_ops: int = DEFAULT_MAX_OPS) -> Schedule:
    """The order of a registered schedule: compute ops of one step, without the update at its end.

    Raises `ParameterError` for sizes that the schedule forbids (the message has the remedy) and `LimitError` for more than
    `max_ops` ops, before any is made.
    """
    found = entry(name)
    params = checked(found, params)
    chunks = params.num_chunks or 1
    steps = params.num_steps if found.asynchronous else 1
    estimate = params.num_ranks * params.num_microbatches * chunks * steps * (3 if found.splits else 2)
    extra = found.extra_work(params) if found.extra_work else 0
    if estimate + extra > max_ops:
        has = f"is as much work as {estimate + extra:,} ops" if extra else f"has {estimate:,} ops"
        message = (
            f"{name} with P={params.num_ranks} M={params.num_microbatches} {has}, over the limit of {max_ops:,}; "
            "lower P or M, or raise --max-ops"
        )
        raise LimitError(message)
    return found.build(params)


def with_remedy(error: DeadlockError, name: str, params: Params) -> DeadlockError:
    """The same deadlock with what the schedule knows to do about it, for whoever simulates a registered schedule."""
    found = entry(name)
    advice = found.remedy(params) if found.remedy else ""
    return DeadlockError(error.cycle, error.next_ops, advice) if advice else error


def checked(found: Entry, params: Params) -> Params:
    """`params` with defaults filled in; `ParameterError` for what the schedule does not take or forbids."""
    positive(params.num_ranks, "-P (ranks)")
    positive(params.num_microbatches, "-M (microbatches)")
    positive(params.num_steps, "--steps")
    for value, option, flag in (
        (params.num_chunks, "chunks", "-v (chunks)"),
        (params.group, "group", "--group"),
        (params.order, "order", "--order"),
    ):
        if value is None:
            continue
        if not isinstance(value, str):
            positive(value, flag)
        if option not in found.options and not (option == "chunks" and value == found.default_chunks):
            why = f": it has {found.default_chunks} on every rank" if option == "chunks" else ""
            message = f"{found.name} takes no {flag}{why}; leave it out"
            raise ParameterError(message)
    params = params._replace(num_chunks=params.num_chunks or found.default_chunks)
    if found.check:
        found.check(params)
    return params
