"""The options that commands share, and what they mean when they are put together.

Each decorator adds its options to a command and hands them over in one value, so that no command knows their number. It owns
how arguments are written; what values are allowed is the library's to say.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pptrace.errors import ParameterError
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_COUNT_DIGITS = 9


def parse_count(text: str, what: str) -> int:
    """A whole number of at least 1, checked before it is converted. Raises `ParameterError` that names `what`."""
    cleaned = text.strip()
    digits = cleaned.removeprefix("-").removeprefix("+")
    if not digits.isascii() or not digits.isdigit():
        message = f"{what}: {printable(text, 40)!r} is not a whole number"
        raise ParameterError(message)
    if len(digits) > MAX_COUNT_DIGITS:
        message = f"{what}: a number of {len(digits)} digits is too large; at most {MAX_COUNT_DIGITS} digits"
        raise ParameterError(message)
    if int(cleaned) < 1:
        message = f"{what} must be at least 1, got {int(cleaned)}"
        raise ParameterError(message)
    return int(cleaned)


class ScheduleOptions(NamedTuple):
    """Everything that decides which schedule is made and how it is timed, as it was given; None or False: not given.

    Costs are still text here: they become numbers once it is known what they belong to.
    """

    num_ranks: int | None = None
    num_microbatches: int | None = None
    num_chunks: int | None = None
    group: int | None = None
    order: str | None = None
    forward: str | None = None
    backward: str | None = None
    weight_grad: str | None = None
    comm: str | None = None
    costs: str | None = None
    cost_per: str | None = None
    layers: str | None = None
    link: str | None = None
    overlap: str | None = None
    reduce: str | None = None
    step_time: str | None = None
    optimizer: str | None = None
    steps: int | None = None
    split_backward: bool = False
    recompute: str | None = None
    global_batch: int | None = None
    microbatch_size: int | None = None
    data_parallel: int | None = None
    activation_bytes: str | None = None
    after_input_bytes: str | None = None
    boundary_bytes: str | None = None
    weight_bytes: str | None = None
    gradient_bytes: str | None = None
    optimizer_bytes: str | None = None
    max_ops: int | None = None
    from_format: str | None = None
    letter_b: str | None = None

    @staticmethod
    def counts() -> tuple[str, ...]:
        """Fields that are whole numbers."""
        return ("num_ranks", "num_microbatches", "num_chunks", "group", "steps")


SIZE_FIELDS = {
    "num_ranks": "-P",
    "num_microbatches": "-M",
    "num_chunks": "-v",
    "group": "--group",
    "order": "--order",
    "optimizer": "--optimizer",
    "steps": "--steps",
    "split_backward": "--split-backward",
    "recompute": "--recompute",
    "global_batch": "--global-batch",
    "microbatch_size": "--microbatch-size",
    "data_parallel": "--data-parallel",
}
"""Fields that make a registered schedule, and the option that gives them; a file brings its own."""

COST_FIELDS = {
    "forward": "-f",
    "backward": "-b",
    "weight_grad": "-w",
    "comm": "-c",
    "costs": "--costs",
    "cost_per": "--cost-per",
    "layers": "--layers",
    "link": "--link",
    "overlap": "--overlap",
    "reduce": "--reduce",
    "step_time": "--step-time",
}
"""Fields that decide times, and the option that gives them."""

SIZE_OPTIONS = {
    "activation_bytes": ("--activation-bytes", "activation"),
    "after_input_bytes": ("--after-input-bytes", "after_input"),
    "boundary_bytes": ("--boundary-bytes", "boundary"),
    "weight_bytes": ("--weight-bytes", "weights"),
    "gradient_bytes": ("--gradient-bytes", "gradients"),
    "optimizer_bytes": ("--optimizer-bytes", "optimizer"),
}
"""Fields that are sizes: the option that gives them, and their name in `costs.Sizes`."""

SOURCE_KEYS = {
    "P": "num_ranks",
    "ranks": "num_ranks",
    "M": "num_microbatches",
    "microbatches": "num_microbatches",
    "v": "num_chunks",
    "chunks": "num_chunks",
    "group": "group",
    "order": "order",
    "f": "forward",
    "forward": "forward",
    "b": "backward",
    "backward": "backward",
    "w": "weight_grad",
    "weight-grad": "weight_grad",
    "c": "comm",
    "comm": "comm",
    "layers": "layers",
    "link": "link",
    "overlap": "overlap",
    "optimizer": "optimizer",
    "steps": "steps",
    "split-backward": "split_backward",
    "recompute": "recompute",
}
"""What may follow a name, `interleaved,v=4`: key to field."""

CHOICES = {
    "order": ("fifo", "lifo"),
    "cost_per": ("rank", "op"),
    "link": ("latency", "serial", "blocking"),
    "optimizer": ("barrier", "per-stage"),
    "recompute": ("full", "early"),
    "letter_b": ("auto", "full", "input"),
}
"""Fields that take one of a few words."""


def complete_file(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """For the shell: names of files, which it finds itself."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415  (only in a shell's completion)

    return [CompletionItem(incomplete, type="file")]


def complete_input_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: formats that are read."""
    from pptrace.formats import FORMATS  # noqa: PLC0415  (only in a shell's completion)

    return [name for name, format_ in FORMATS.items() if format_.reads and name.startswith(incomplete)]


def complete_output_format(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: formats that are written."""
    from pptrace.formats import FORMATS  # noqa: PLC0415  (only in a shell's completion)

    return [name for name, format_ in FORMATS.items() if format_.writes and name.startswith(incomplete)]


def complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For the shell: names of schedules."""
    from pptrace.schedules.registry import REGISTRY  # noqa: PLC0415  (only in a shell's completion)

    return [name for name in REGISTRY if name.startswith(incomplete)]


def _count(flags: tuple[str, ...], help_text: str, field: str) -> Callable[[Any], Any]:
    what = f"{flags[0]} ({flags[1].lstrip('-')})" if len(flags) > 1 else flags[0]

    def convert(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
        return None if value is None else parse_count(value, what)

    return click.option(*flags, field, metavar="N", callback=convert, help=help_text)


def _text(flags: tuple[str, ...], help_text: str, field: str, metavar: str = "TIME") -> Callable[[Any], Any]:
    complete = complete_file if metavar == "FILE" else None
    return click.option(*flags, field, metavar=metavar, help=help_text, shell_complete=complete)


def _choice(flag: str, help_text: str, field: str) -> Callable[[Any], Any]:
    return click.option(flag, field, type=click.Choice(CHOICES[field]), help=help_text)


_SCHEDULE_OPTIONS = (
    _count(("-P", "--ranks"), "Ranks.", "num_ranks"),
    _count(("-M", "--microbatches"), "Microbatches of one optimizer step.", "num_microbatches"),
    _count(
        ("-v", "--chunks"), "Stages on every rank, for schedules that take it (wave: two for every wave).", "num_chunks"
    ),
    _count(("--group",), "Microbatches in a group (interleaved); default: the smallest that fits.", "group"),
    _choice("--order", "Order of gpipe's backwards; default fifo.", "order"),
    _text(
        ("-f", "--forward"), "Time of a forward: of one microbatch on one rank; a number, or one per rank.", "forward"
    ),
    _text(("-b", "--backward"), "Time of the full backward (I+W).", "backward"),
    _text(("-w", "--weight-grad"), "The part of -b that is the weight gradient.", "weight_grad"),
    _text(("-c", "--comm"), "Latency of a message between ranks; a number, or one per link.", "comm"),
    _text(("--costs",), "Costs per stage, from a TOML file; the options override it.", "costs", "FILE"),
    _choice(
        "--cost-per", "What -f -b -w are the time of: one microbatch on one rank (default), or one op.", "cost_per"
    ),
    _text(
        ("--layers",),
        "Layers of the model, spread over the stages, or a list with each stage's. A single -f -b -w, or size, is then that of "
        "one layer.",
        "layers",
        "N",
    ),
    click.option(
        "--link",
        "--comm-mode",
        "link",
        type=click.Choice(CHOICES["link"]),
        help="latency: messages do not contend (default); serial: one at a time per direction; blocking: a message holds both "
        "its ranks.",
    ),
    _text(("--overlap",), "What an overlapped pair lasts; default sum.", "overlap", "sum|max|split|TIME"),
    _text(("--reduce",), "Time of the gradient reduction at the end of a step.", "reduce"),
    _text(("--step-time",), "Time of the optimizer step.", "step_time"),
    _choice("--optimizer", "Whether a step waits for all stages (barrier, default) or its own.", "optimizer"),
    _count(("--steps",), "Optimizer steps to trace; default 1.", "steps"),
    click.option("--split-backward", is_flag=True, help="Turn every full backward into I, then W."),
    _choice(
        "--recompute", "Recompute forwards before their backwards; early: as soon as the rank gets there.", "recompute"
    ),
    _count(("--global-batch",), "Samples of one optimizer step, over all replicas: gives M.", "global_batch"),
    _count(("--microbatch-size",), "Samples in a microbatch; default 1.", "microbatch_size"),
    _count(("--data-parallel",), "Data-parallel replicas; default 1.", "data_parallel"),
    _text(
        ("--activation-bytes",),
        "Saved by a forward of one microbatch on one rank; 4096, 1.5GiB.",
        "activation_bytes",
        "SIZE",
    ),
    _text(
        ("--after-input-bytes",),
        "What is left of it from the end of I until W; default: all of it.",
        "after_input_bytes",
        "SIZE",
    ),
    _text(("--boundary-bytes",), "The tensor between two stages, of one microbatch.", "boundary_bytes", "SIZE"),
    _text(("--weight-bytes",), "Weights of one rank.", "weight_bytes", "SIZE"),
    _text(("--gradient-bytes",), "Gradients of one rank.", "gradient_bytes", "SIZE"),
    _text(("--optimizer-bytes",), "Optimizer states of one rank.", "optimizer_bytes", "SIZE"),
    _count(("--max-ops",), "Refuse schedules with more ops than this; default 2 million.", "max_ops"),
    click.option(
        "--from",
        "from_format",
        metavar="FORMAT",
        help="Format of the input; default: by suffix or content.",
        shell_complete=complete_input_format,
    ),
    _choice("--letter-b", "What B means in a schedule file: the full backward, or the input half.", "letter_b"),
)


def schedule_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add every option that makes or times a schedule; the command gets them as `options: ScheduleOptions`."""

    @wraps(function)
    def gathered(**given: Any) -> Any:
        options = ScheduleOptions(**{field: given.pop(field) for field in ScheduleOptions._fields})
        return function(options=options, **given)

    decorated: Callable[..., Any] = gathered
    for option in reversed(_SCHEDULE_OPTIONS):
        decorated = option(decorated)
    return decorated


def complete_source(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """For the shell: names of schedules, else of files."""
    return complete_name(ctx, param, incomplete) or complete_file(ctx, param, incomplete)


def source_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """The argument NAME|FILE|-; the command gets it as `source: str`."""
    decorate: Callable[..., Any] = click.argument("source", metavar="NAME|FILE|-", shell_complete=complete_source)
    decorated: Callable[..., Any] = decorate(function)
    return decorated


def output_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """-o/--output: `output`."""
    decorated: Callable[..., Any] = click.option(
        "-o", "--output", metavar="FILE", help="Write to FILE; - is stdout.", shell_complete=complete_file
    )(function)
    return decorated


def output_options(*formats: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """-t/--to (one of `formats`, or any text where none are named) and -o/--output: `to` and `output`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        kind = click.Choice(formats) if formats else None
        return click.option(
            "-t",
            "--to",
            type=kind,
            metavar=None if formats else "FORMAT",
            help="Format; default: by the suffix of -o.",
            shell_complete=None if formats else complete_output_format,
        )(output_option(function))

    return decorate


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """--color after the command as well as before it."""

    def set_color(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            ctx.find_root().obj = value

    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        expose_value=False,
        callback=set_color,
        help="Colour.",
    )(function)
