"""Which rank a slice of a profiler's file is of: the one that the file says (`distributedInfo`), that of its name, or the
process that the slice is drawn in; and which of several copies of the same ranges (annotations, rows of a GPU) are read."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pptrace.errors import FormatError
from pptrace.formats.chrome_reading import fail
from pptrace.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.formats.chrome_reading import Mark, Marks

GPU = "gpu_user_annotation"


class Rank(NamedTuple):
    """The slices of one rank in the order of time, the name of the file that they are in, and when that file's clock began, in
    nanoseconds."""

    name: str
    marks: list[Mark]
    base: int


def ranks_of(files: Sequence[Marks]) -> tuple[list[Rank], list[str]]:
    """All ranks in order, and sentences on how they were told apart. Raises `FormatError` where they cannot be."""
    notes: list[str] = []
    chosen = [file._replace(marks=_one_copy(file.marks, notes)) for file in files]
    if len(chosen) == 1 and chosen[0].rank is None:
        return _processes(chosen[0], notes), notes
    by_rank: dict[int, Marks] = {}
    for file in chosen:
        rank = _rank_of(file)
        if rank in by_rank:
            message = (
                f"{file.name}: is of rank {rank}, as {by_rank[rank].name} is; give one file a rank, all of one run "
                "(a directory with the files of one run)"
            )
            raise FormatError(message)
        by_rank[rank] = file
    _require_all(chosen)
    numbers = sorted(by_rank)
    if numbers != list(range(len(numbers))):
        notes.append(f"ranks {_listed(numbers)} of the run are ranks 0..{len(numbers) - 1} here")
    for number in numbers:
        if not by_rank[number].marks:
            fail(by_rank[number].name, "$.traceEvents", "no event is named as an op (PP:0F0, 0F0 or Forward 0)")
    return [Rank(file.name, _in_time(file.marks), file.base) for _, file in sorted(by_rank.items())], notes


def _in_time(marks: Sequence[Mark]) -> list[Mark]:
    places = max((max(mark.ts.places, mark.dur.places) for mark in marks), default=0)
    return sorted(
        marks,
        key=lambda mark: (mark.ts.on_grid(places), mark.ts.on_grid(places) + mark.dur.on_grid(places), mark.place),
    )


def _listed(numbers: Sequence[int | str]) -> str:
    shown = ", ".join(printable(str(number), 40) for number in numbers[:8])
    return shown + (", ..." if len(numbers) > 8 else "")


def _one_copy(marks: list[Mark], notes: list[str]) -> list[Mark]:
    """Annotated ops before others that are named alike, ops before phases (which have no stage), and of the rows of a GPU,
    which repeat the ranges of the host, those of the stream with the most of them."""
    named = [mark for mark in marks if not mark.is_phase]
    annotated = [mark for mark in named if mark.annotated]
    marks = annotated or named or marks
    host, gpu = [m for m in marks if m.cat != GPU], [m for m in marks if m.cat == GPU]
    if not gpu:
        return marks
    streams = Counter((mark.pid, mark.tid) for mark in gpu)
    busiest = streams.most_common(1)[0][0]
    rows = [mark for mark in gpu if (mark.pid, mark.tid) == busiest]
    if Counter(mark.text for mark in host) <= Counter(mark.text for mark in rows):
        _say(notes, "times are those of the GPU's rows")
        return rows
    _say(
        notes,
        "the GPU's rows lack some of the ops and were left aside; times are those of the host, when work was launched",
    )
    return host or rows


def _say(notes: list[str], sentence: str) -> None:
    if sentence not in notes:
        notes.append(sentence)


def _rank_of(file: Marks) -> int:
    if file.rank is not None:
        return file.rank
    found = re.search(r"rank[-_. ]?(\d{1,6})(?!.*rank)", file.name, re.IGNORECASE | re.ASCII)
    if found is None:
        message = f"{file.name}: $.distributedInfo.rank: missing; say the rank in the name of the file (run.rank0.json)"
        raise FormatError(message)
    return int(found[1])


def _require_all(files: Sequence[Marks]) -> None:
    """Refuse a single file of several ranks, where other ranks take part in the pipeline."""
    file = files[0]
    if len(files) > 1 or file.num_ranks in (None, 1):
        return
    if any(mark.is_phase or "SEND_" in mark.text or "RECV_" in mark.text for mark in file.marks):
        message = (
            f"{file.name}: holds rank {file.rank} of {file.num_ranks}; give the files of all ranks "
            "(pptrace convert RANK0 RANK1 ... -o x.json), or their directory"
        )
        raise FormatError(message)


def _processes(file: Marks, notes: list[str]) -> list[Rank]:
    """The ranks of a file that says none: its processes, or its threads where one process has all."""
    groups: dict[int | str, list[Mark]] = {}
    one_process = len({mark.pid for mark in file.marks}) == 1 and len({mark.tid for mark in file.marks}) > 1
    for mark in file.marks:
        groups.setdefault(mark.tid if one_process else mark.pid, []).append(mark)
    numbers = {key: _number(key if one_process else file.processes.get(key, key)) for key in groups}
    if len(set(numbers.values())) < len(groups):
        numbers = {key: _number(key) for key in groups}
    keys = sorted(groups, key=lambda key: (numbers[key], str(key)))
    if keys != list(range(len(keys))):
        what = "threads" if one_process else "processes"
        notes.append(f"ranks 0..{len(keys) - 1} are the {what} {_listed(keys)}")
    return [Rank(file.name, _in_time(groups[key]), file.base) for key in keys]


def _number(label: int | str) -> int:
    """The number in a process's name (`rank 3`); names without one come last."""
    found = re.search(r"\d{1,18}", str(label), re.ASCII)
    return int(found[0]) if found else 10**18
