"""Our schedule files in PyTorch's own hands: they load in `_PipelineScheduleRuntime._load_csv`, pass its validation, and
lower to the bytes that we lower to.

A script, not collected by pytest, for an environment with torch 2.13 (a CPU build is enough) and pptrace:

    python tests/torch_lane/load_in_pytorch.py

It fails, and never skips, where torch is missing or of another version.
"""

from __future__ import annotations

import csv
import io
import random
import sys
import tempfile
from pathlib import Path

import torch
from torch.distributed.pipelining import schedules as theirs

from pptrace.cli import main
from pptrace.errors import PptraceError, ScheduleError
from pptrace.formats import torch_csv
from pptrace.formats.listings import listing_of
from pptrace.formats.lowering import RECEIVE_CHOICES, for_torch, lower
from pptrace.listing import Cell, Listing
from pptrace.model import Op, OpKind, Schedule
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.schedules.transforms import split_backward

WANTED = "2.13."
SIZES = [(ranks, microbatches) for ranks in (1, 2, 3, 4, 8) for microbatches in (1, 2, 3, 4, 5, 8, 16)]
RANDOM_ORDERS = 300
LEAST_LOADS = 1000


class Stage:
    """As much of a pipeline stage as loading a schedule looks at."""

    def __init__(self, num_stages: int, num_ranks: int) -> None:
        self.num_stages = num_stages
        self.group_size = num_ranks
        self.group_rank = 0
        self.stage_index = 0
        self.has_backward = True
        self.is_first = True
        self.is_last = num_stages == 1
        self.stage_index_to_group_rank: dict[int, int] = {}


def runtime(num_stages: int, num_ranks: int, num_microbatches: int, *, defer: bool) -> theirs._PipelineScheduleRuntime:
    stages = [Stage(num_stages, num_ranks)]
    return theirs._PipelineScheduleRuntime(stages, num_microbatches, defer_pp_recv=defer)  # type: ignore[arg-type]


def dumped(loaded: theirs._PipelineScheduleRuntime) -> bytes:
    """What PyTorch would write of the lowered schedule."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    for rank in loaded.pipeline_order_with_comms:
        writer.writerow(loaded.pipeline_order_with_comms[rank])
    return text.getvalue().encode()


def load(listing: Listing, num_stages: int, num_microbatches: int, folder: Path) -> int:
    """Load the compute file, lowered by PyTorch both ways, and our lowered files; the number of loads."""
    file = folder / "schedule.csv"
    file.write_bytes(torch_csv.write(listing))
    num_ranks = len(listing.rows)
    for receive in ("early", "deferred"):
        loaded = runtime(num_stages, num_ranks, num_microbatches, defer=receive == "deferred")
        loaded._load_csv(str(file))
        if dumped(loaded) != torch_csv.write(lower(listing, receive)):
            sys.exit(f"{listing.source}: the {receive} messages differ from PyTorch's:\n{dumped(loaded).decode()}")
    for receive in RECEIVE_CHOICES:
        content = torch_csv.write(lower(listing, receive))
        file.write_bytes(content)
        loaded = runtime(num_stages, num_ranks, num_microbatches, defer=False)
        loaded._load_csv(str(file), format="compute_comms")
        if dumped(loaded) != content:
            sys.exit(f"{listing.source}: PyTorch reads our {receive} file as something else")
    return 2 + len(RECEIVE_CHOICES)


def registered() -> list[Schedule]:
    """Every schedule that lives one way, at every size that it takes; those without a split backward also split."""
    found = []
    for name in names():
        chunks: list[int | None] = [None, 1, 2, 3, 4] if "chunks" in entry(name).options else [None]
        for ranks, microbatches in SIZES:
            for num_chunks in chunks:
                try:
                    schedule = build(name, Params(ranks, microbatches, num_chunks))
                except PptraceError:  # a size that this schedule refuses
                    continue
                if not schedule.placement.bidirectional:
                    found.append(schedule)
                    if OpKind.B in schedule.kinds() and ranks == 4:
                        found.append(split_backward(schedule))
    return found


def random_order(rng: random.Random) -> tuple[Listing, int, int]:
    """A random order on a random placement that runs, or is stuck where joining two ops to a pair has made a circle."""
    num_ranks, num_microbatches = rng.randint(1, 4), rng.randint(1, 5)
    num_stages = num_ranks * rng.randint(1, 4)
    rank_of = [*range(num_ranks), *(rng.randrange(num_ranks) for _ in range(num_stages - num_ranks))]
    rng.shuffle(rank_of)
    splits = [rng.random() < 0.5 for _ in range(num_stages)]
    done: set[tuple[OpKind, int, int]] = set()
    ready = [(OpKind.F, 0, m) for m in range(num_microbatches)]
    rows: list[list[Cell]] = [[] for _ in range(num_ranks)]
    while ready:
        kind, stage, number = ready.pop(rng.randrange(len(ready)))
        done.add((kind, stage, number))
        op = Op(stage, kind, number)
        row = rows[rank_of[stage]]
        before = row[-1].ops if row else ()
        pairs = len(before) == 1 and {before[0].kind, kind} in ({OpKind.F, OpKind.B}, {OpKind.F, OpKind.I})
        if pairs and rng.random() < 0.3:
            row[-1] = Cell((before[0], op), "")
        else:
            row.append(Cell((op,), ""))
        if kind is OpKind.F and stage + 1 < num_stages:
            ready.append((OpKind.F, stage + 1, number))
        elif kind is OpKind.F or (kind in (OpKind.B, OpKind.I) and stage):
            below = num_stages - 1 if kind is OpKind.F else stage - 1
            ready.append((OpKind.I if splits[below] else OpKind.B, below, number))
        if kind is OpKind.I:
            ready.append((OpKind.W, stage, number))
    return Listing(tuple(map(tuple, rows)), "random order"), num_stages, num_microbatches


def is_stuck(listing: Listing) -> bool:
    try:
        lower(listing, "early")
    except ScheduleError:
        return True
    return False


def must_refuse(listing: Listing, num_stages: int, num_microbatches: int, folder: Path) -> None:
    """PyTorch cannot place the messages of an order that we call stuck."""
    file = folder / "stuck.csv"
    file.write_bytes(torch_csv.write(listing))
    try:
        runtime(num_stages, len(listing.rows), num_microbatches, defer=False)._load_csv(str(file))
    except AssertionError as refused:
        if "can't schedule sends/recvs" in str(refused):
            return
        raise
    sys.exit(f"PyTorch lowers an order that we call stuck:\n{file.read_text()}")


def command_line(folder: Path) -> None:
    """`--to torch-compute` and `--to torch-comms` through the command itself."""
    for name, size, form in (
        ("1f1b", (), "compute_only"),
        ("interleaved", ("-v", "2"), "compute_only"),
        ("dualpipev", (), "compute_only"),
        ("zb-v", (), "compute_comms"),
    ):
        out = folder / "command.csv"
        to = "torch-compute" if form == "compute_only" else "torch-comms"
        code = main.main(
            ["convert", name, "-P", "4", "-M", "8", *size, "--to", to, "-o", str(out)], standalone_mode=False
        )
        if code:
            sys.exit(f"pptrace convert {name} left with {code}")
        num_stages = 4 if name == "1f1b" else 8
        runtime(num_stages, 4, 8, defer=False)._load_csv(str(out), format=form)  # type: ignore[arg-type]


def run() -> None:
    print(f"torch {torch.__version__}")
    if not torch.__version__.startswith(WANTED):
        sys.exit(f"this lane needs torch {WANTED}*, not {torch.__version__}")
    loads = 0
    found = registered()
    rng = random.Random(13)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for schedule in found:
            listing, _ = for_torch(listing_of(schedule))
            loads += load(listing, schedule.num_stages, schedule.num_microbatches, folder)
        stuck = 0
        for _ in range(RANDOM_ORDERS):
            order = random_order(rng)
            if is_stuck(order[0]):
                must_refuse(*order, folder)
                stuck += 1
            else:
                loads += load(*order, folder)
        command_line(folder)
    if loads < LEAST_LOADS:
        sys.exit(f"only {loads} files were loaded; were schedules left out?")
    families = len({schedule.name for schedule in found})
    print(
        f"{len(found)} orders of {families} schedules, {RANDOM_ORDERS} random ones ({stuck} stuck): {loads} loads, all good"
    )


if __name__ == "__main__":
    run()
