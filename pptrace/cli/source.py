"""NAME | FILE | -: what a command's argument means, and the schedule or timeline behind it.

A registered name wins; anything with a separator, a suffix or `./` is a path; `-` is standard input; anything else is a
misspelt name. Options that make a schedule belong to names; a file brings its own order.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pptrace.cli.costs import costs_of, has_layers, sizes_of
from pptrace.cli.input import files_in, is_path, read_file, read_stdin
from pptrace.cli.options import (
    CHOICES,
    COST_FIELDS,
    SIZE_FIELDS,
    SOURCE_KEYS,
    ScheduleOptions,
    parse_count,
)
from pptrace.dependencies import require_runnable
from pptrace.errors import LimitError, ParameterError, ScheduleError
from pptrace.layers import sizes_of_stages
from pptrace.model import OpKind
from pptrace.printable import printable
from pptrace.recipes import Recipe, make_schedule, time_schedule
from pptrace.schedules.registry import DEFAULT_MAX_OPS, REGISTRY, Params, entry, nearest
from pptrace.timeline import Timeline, simulate_schedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pptrace.analysis.report import Report
    from pptrace.costs import Costs
    from pptrace.formats import Document
    from pptrace.formats.costs_toml import CostsFile
    from pptrace.listing import Listing
    from pptrace.model import Schedule


class Loaded:
    """What the user named, as far as it is asked for: the order, the times, the report. Each is made once.

    `label` is safe to print. `recipe` is there for a registered name, `document` for a file.
    """

    def __init__(
        self,
        label: str,
        options: ScheduleOptions,
        *,
        recipe: Recipe | None = None,
        document: Document | None = None,
        costs_file: CostsFile | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.label = label
        self.options = options
        self.recipe = recipe
        self.document = document
        self.notes = notes
        self._costs_file = costs_file
        self._schedule: Schedule | None = document.schedule if document else None
        self._timeline: Timeline | None = None
        self._report: Report | None = None

    @property
    def listing(self) -> Listing | None:
        """The file's order as it is written, where it is a file of orders."""
        return self.document.listing if self.document else None

    @property
    def has_times(self) -> bool:
        """Whether the file has times of its own."""
        return self.document is not None and self.document.timeline is not None

    @property
    def findings(self) -> tuple[str, ...]:
        """What does not agree inside the file."""
        return self.document.findings if self.document else ()

    @property
    def schedule(self) -> Schedule:
        """The order. Raises `ScheduleError`, with the place, where what is written is none that can be built."""
        if self._schedule is None:
            if self.recipe is not None:
                self._schedule = make_schedule(self.recipe)
            elif self.listing is not None:
                from pptrace.formats.listings import schedule_of  # noqa: PLC0415  (only for files of orders)

                with self._named_errors():
                    made = schedule_of(self.listing)
                self._schedule = made.schedule
                self.notes = (*self.notes, *(note for note in made.notes if note not in self.notes))
            else:
                message = f"{self.label}: holds no schedule"
                raise ParameterError(message)
        return self._schedule

    @property
    def splits(self) -> bool:
        """Whether I and W run, or overlapped pairs: decides the default costs."""
        if self.recipe is not None:
            return self.recipe.splits
        return bool(self.schedule.kinds() & {OpKind.I, OpKind.W}) or bool(self.schedule.pairs)

    def costs(self, *, splits: bool | None = None) -> Costs:
        """What the options, the costs file and the trace say. `splits` is for commands of several schedules."""
        recorded = self.document.timeline if self.document else None
        base = recorded.costs if recorded is not None else None
        file = self._costs_file
        num_stages = self.schedule.num_stages if has_layers(self.options, file) else None
        return costs_of(
            self.options,
            splits=self.splits if splits is None else splits,
            file=file,
            base=base,
            num_stages=num_stages,
        )

    def timeline(self, *, splits: bool | None = None) -> Timeline:
        """The times: of the file, or computed; computed anew where a cost option is given."""
        if self._timeline is None:
            with self._named_errors():
                self._timeline = self._timed(splits)
        return self._timeline

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """What is wrong with the order of a file is said with the file's name: there may be several files."""
        try:
            yield
        except ScheduleError as error:
            if self.document is None or str(error).startswith(self.label):
                raise
            message = f"{self.label}: {error}"
            raise ScheduleError(message) from None

    def _timed(self, splits: bool | None) -> Timeline:
        recorded = self.document.timeline if self.document else None
        if recorded is not None and not given(self.options, COST_FIELDS):
            require_runnable(recorded.schedule, recorded.dependencies)
            sizes = sizes_of(self.options, recorded.costs.sizes)
            if sizes is not None and recorded.costs.layers:
                sizes = sizes_of_stages(sizes, recorded.costs.layers)
            if sizes != recorded.costs.sizes:
                recorded.costs = recorded.costs._replace(sizes=sizes)
                self.document = self.document._replace(report=None) if self.document else None
            return recorded
        if self.recipe is not None:
            return time_schedule(self.recipe, self.costs(splits=splits))
        costs = self.costs(splits=splits)
        placement = self.schedule.placement
        per_rank = {len(placement.stages(rank)) for rank in range(placement.num_ranks)}
        if len(per_rank) > 1 and "rank" in (costs.forward.per, costs.backward.per, costs.weight_grad.per):
            message = (
                f"{self.label}: its ranks hold unequal numbers of stages, so a time per rank is no time per op; "
                "say --cost-per op, or give --costs FILE"
            )
            raise ParameterError(message)
        return simulate_schedule(self.schedule, costs)

    def name_order(self) -> None:
        """Say in the notes which registered order a file has, or is nearest to; a trace that says what it is is believed."""
        from pptrace.analysis.recognition import MOST_OPS, recognize  # noqa: PLC0415  (a registered name needs none)

        if self.document is not None and self.schedule.name not in REGISTRY and self.schedule.num_ops <= MOST_OPS:
            sentence = recognize(self.schedule).sentence()
            self.notes = (*(note for note in self.notes if note != sentence), sentence)

    def report(self) -> Report:
        """Everything that is shown of the timeline."""
        if self._report is None:
            from pptrace.analysis.report import Report  # noqa: PLC0415  (not every command reports)

            timeline = self.timeline()
            known = self.document.report if self.document else None
            if known is None or known.timeline is not timeline:
                known = Report(timeline)
            self._report = known.with_notes(self.notes)
        return self._report


def given(options: ScheduleOptions, fields: dict[str, str]) -> list[str]:
    """The flags of those of `fields` that were given."""
    return [flag for field, flag in fields.items() if getattr(options, field) not in (None, False)]


def load(source: str, options: ScheduleOptions, *, keep_faults: bool = False) -> Loaded:
    """What `source` means. Raises `ParameterError` for a misspelt name or options that do not belong, `FormatError` for a
    file that cannot be read as what it is, `OSError` for one that cannot be read at all. `keep_faults`: cells that
    are no ops, and ops that overlap, stay as they are, for the checker to name."""
    name, settings = split_name(source)
    if name in REGISTRY:
        return _named(name, with_settings(options, settings, name))
    if source == "-":
        return _file("-", "standard input", read_stdin(), options, keep_faults)
    if is_path(source):
        if os.path.isdir(source):
            return load_run(files_in(source), source, options)
        return _file(source, source, read_file(source), options, keep_faults)
    near = nearest(name, list(REGISTRY))
    hint = f"did you mean {near}?" if near else "`pptrace schedules` lists the names"
    message = f"no schedule is called {printable(name, 60)!r}; {hint} (a file is written with its suffix, or ./)"
    raise ParameterError(message)


def load_run(paths: list[str], label: str, options: ScheduleOptions) -> Loaded:
    """The run whose ranks wrote the files `paths`, one each. Raises as `load` does."""
    from pptrace import formats  # noqa: PLC0415  (a registered name reads nothing)

    for path in paths:
        if path != "-" and not is_path(path):
            message = (
                f"{printable(path, 60)} is no file; several inputs are the traces of one run's ranks, "
                "of schedules take one at a time"
            )
            raise ParameterError(message)
    _require_no_sizes(label, options)
    files = ((printable(path, 200), read_file(path)) for path in paths)  # one at a time in memory
    return _read(formats.read_files(files, options.from_format, **_reading(options)), label, options)


def split_name(source: str) -> tuple[str, list[str]]:
    """`interleaved,v=4` as (interleaved, [v=4]). A list of costs keeps its commas: `1f1b,f=1,2,M=4`."""
    name, *pieces = source.split(",")
    settings: list[str] = []
    for piece in pieces:
        key = piece.partition("=")[0]
        if "=" not in piece and key not in SOURCE_KEYS and settings:
            settings[-1] += f",{piece}"
        else:
            settings.append(piece)
    return name, settings


def with_settings(options: ScheduleOptions, settings: list[str], name: str) -> ScheduleOptions:
    """`options` with what follows the name laid over them. Raises `ParameterError`."""
    changes: dict[str, object] = {}
    for setting in settings:
        key, mark, value = setting.partition("=")
        if key not in SOURCE_KEYS:
            near = nearest(key, list(SOURCE_KEYS))
            hint = f"did you mean {near}?" if near else f"known are {', '.join(SOURCE_KEYS)}"
            message = f"{name},{printable(setting, 40)}: no key is called {printable(key, 40)!r}; {hint}"
            raise ParameterError(message)
        field = SOURCE_KEYS[key]
        if field == "split_backward":
            changes[field] = value in ("", "yes")
        elif not mark or not value:
            message = f"{name},{printable(setting, 40)}: needs a value, for example {name},{key}=2"
            raise ParameterError(message)
        elif field in CHOICES and value not in CHOICES[field]:
            message = f"{name},{printable(setting, 40)}: {key} is {' or '.join(CHOICES[field])}"
            raise ParameterError(message)
        elif field in ScheduleOptions.counts():
            changes[field] = parse_count(value, f"{name},{key}")
        else:
            changes[field] = value
    return options._replace(**changes)  # type: ignore[arg-type]


def _named(name: str, options: ScheduleOptions) -> Loaded:
    for flag in given(options, {"from_format": "--from", "letter_b": "--letter-b"}):
        message = f"{flag} is for files; {name} is a registered schedule"
        raise ParameterError(message)
    costs_file = _costs_file(options)
    sizes = _sizes(name, options, costs_file)
    params = Params(
        sizes.num_ranks, sizes.num_microbatches, options.num_chunks, options.group, options.order, options.steps or 1
    )
    recipe = Recipe(
        name,
        params,
        options.split_backward,
        options.recompute or "",
        options.optimizer != "per-stage",
        options.max_ops or DEFAULT_MAX_OPS,
    )
    return Loaded(name, options, recipe=recipe, costs_file=costs_file, notes=sizes.notes)


class _Sizes(NamedTuple):
    num_ranks: int
    num_microbatches: int
    notes: tuple[str, ...]


def _sizes(name: str, options: ScheduleOptions, costs_file: CostsFile | None) -> _Sizes:
    num_ranks, (num_microbatches, notes) = options.num_ranks, _microbatches(options)
    if num_ranks is None and costs_file is not None and costs_file.num_stages is not None:
        chunks = options.num_chunks or entry(name).default_chunks
        if costs_file.num_stages % chunks == 0:
            num_ranks = costs_file.num_stages // chunks
    missing = [
        text for value, text in ((num_ranks, "-P (ranks)"), (num_microbatches, "-M (microbatches)")) if value is None
    ]
    if num_ranks is None or num_microbatches is None:
        message = f"{name} needs {' and '.join(missing)}, for example: pptrace show {name} -P 4 -M 8"
        raise ParameterError(message)
    if notes and num_microbatches < num_ranks:
        enough = num_ranks * (options.microbatch_size or 1) * (options.data_parallel or 1)
        notes += (f"M < P = {num_ranks}: a global batch of {enough} is the first with M >= P",)
    return _Sizes(num_ranks, num_microbatches, notes)


def _microbatches(options: ScheduleOptions) -> tuple[int | None, tuple[str, ...]]:
    """M as given, or from the global batch: M = global batch / (microbatch size x replicas)."""
    if options.global_batch is None:
        for flag in given(options, {"microbatch_size": "--microbatch-size", "data_parallel": "--data-parallel"}):
            message = f"{flag} belongs to --global-batch; give both, or -M (microbatches) alone"
            raise ParameterError(message)
        return options.num_microbatches, ()
    size, replicas = options.microbatch_size or 1, options.data_parallel or 1
    count, rest = divmod(options.global_batch, size * replicas)
    if rest or not count:
        message = (
            f"--global-batch {options.global_batch} is no multiple of microbatch size x data parallel = "
            f"{size} x {replicas} = {size * replicas}; change one of the three"
        )
        raise ParameterError(message)
    if options.num_microbatches not in (None, count):
        message = (
            f"-M {options.num_microbatches} contradicts --global-batch {options.global_batch}: "
            f"{options.global_batch} / ({size} x {replicas}) = {count} microbatches; leave one of the two out"
        )
        raise ParameterError(message)
    note = f"M = global batch / (microbatch size x data parallel) = {options.global_batch} / ({size} x {replicas}) = {count}"
    return count, (note,)


def _costs_file(options: ScheduleOptions) -> CostsFile | None:
    if options.costs is None:
        return None
    from pptrace.formats import costs_toml  # noqa: PLC0415  (only where a costs file is given)

    return costs_toml.read(read_file(options.costs), source=options.costs)


def _file(path: str, label: str, data: bytes, options: ScheduleOptions, keep_faults: bool) -> Loaded:
    _require_no_sizes(label, options)
    if path == "-" == options.costs:
        message = "standard input holds one file: the schedule or the costs; name the other"
        raise ParameterError(message)
    from pptrace import formats  # noqa: PLC0415  (a registered name reads nothing)

    name = label if path == "-" else path
    document = formats.read(data, name, options.from_format, keep_faults=keep_faults, **_reading(options))
    return _read(document, label, options)


def _require_no_sizes(label: str, options: ScheduleOptions) -> None:
    """Refuse options that make a registered schedule: a file brings its own order."""
    flags = given(options, SIZE_FIELDS)
    if flags:
        message = f"{flags[0]} makes a registered schedule; {printable(label, 60)} brings its own order; leave it out"
        raise ParameterError(message)


def _reading(options: ScheduleOptions) -> dict[str, object]:
    """What is said of how to read a file."""
    return {} if options.letter_b is None else {"letter": options.letter_b}


def _read(document: Document, label: str, options: ScheduleOptions) -> Loaded:
    limit = options.max_ops or DEFAULT_MAX_OPS
    num_ops = _num_ops(document)
    if num_ops > limit:
        message = f"{label}: {num_ops:,} ops are over the limit of {limit:,}; raise --max-ops to take it"
        raise LimitError(message)
    return Loaded(
        printable(label, 200), options, document=document, costs_file=_costs_file(options), notes=document.notes
    )


def _num_ops(document: Document) -> int:
    """The ops of a file; messages and sharding count where they are written."""
    if document.schedule is not None:
        return document.schedule.num_ops
    return sum(map(len, document.listing.rows)) if document.listing is not None else 0
