"""Random and mutated bytes through every reader: an answer or one of our own errors, in one line, and memory stays bounded.

2,000 byte strings per reader by default; `PPTRACE_FUZZ=100000 pytest tests/formats/test_fuzz_readers.py` for all.
"""

from __future__ import annotations

import os
import random
import re
import resource
from functools import cache

import golden_data
import pytest

from pptrace import formats
from pptrace.analysis.report import Report
from pptrace.check.checker import check
from pptrace.dependencies import dependencies
from pptrace.errors import PptraceError
from pptrace.formats import costs_toml
from pptrace.formats.listings import schedule_of
from pptrace.formats.lowering import RECEIVE_CHOICES, lower
from pptrace.render.draw import Canvas, grid_lines
from pptrace.render.grid import grid
from pptrace.render.lines import text_of_line
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule

COUNT = int(os.environ.get("PPTRACE_FUZZ", "2000"))
SEED = 20260101
MOST_MEGABYTES = 300
"""What all runs of one reader may add to the memory of the process."""

READERS = [*(name for name, format_ in formats.FORMATS.items() if format_.reads), "costs"]

COSTS = b"""\
unit = "us"
forward = [1, 2.5, "3/2", 1]
backward = [2, 2, 2, 2]
weight_grad = 1
comm = 0.25
microbatch_scale = [1, 1, 2]
"""
WORDS = [
    *(b"0F0 1F0 2B1 0I0 0W0 3BW2 0UNSHARD 1RESHARD 0REDUCE_GRAD 0SEND_F1 1RECV_F1 2SEND_B0 1RECV_B0 0STEP".split()),
    *(
        b"(0F7;7B0)OVERLAP_F_B () ( ) ; F0 B1 F -1 0F-1 99999F0 0F9999999 0F99999999999999999999 F1^ 0F1+1B0 F0@1".split()
    ),
    *(b"time | stage rank r0 S1 . - -- ~ idle , \" ' @ # = + & 0 1 1/2 1e400 NaN null true false".split()),
    *(b'{ } [ ] : "events" "ticks_per_unit" "start" "schema" "pptrace.trace/1" \\u0000 \\ud800 -0 1.5 2e308'.split()),
    *(b'"ph":"X" "ts" "dur" "pid" "PP:0F0" "Forward 0" "args" "traceEvents" "otherData" -1e-30 1e30'.split(b" ")),
    b"\r\n",
    b"\n",
    b"\r",
    b"\t",
    b" ",
    b"\x00",
    b"\x1b[31m",
    b"\xff",
    b"\xef\xbb\xbf",
    "é‮🙂".encode(),
    b"\xed\xa0\x80",
    b"9" * 400,
    b"[" * 2000,
    b'{"a":' * 1000,
]


NUMBERS = b"0 1 2 3 7 11 255 4096 99999 9007199254740993 1.5 -1 3/2 00".split()


@cache
def seeds() -> dict[str, tuple[bytes, ...]]:
    """Right files of every kind, by reader, small enough for many runs."""
    timeline = simulate_schedule(build("1f1b", Params(3, 4)))
    report = Report(timeline)
    picture = "\n".join(text_of_line(line) for line in grid_lines(Canvas(grid(timeline), 40))).encode()
    csv = [
        golden_data.data(f"goldens/torch_csv/{name}.csv")
        for name in ("zbv_P2_M2_v2.compute", "dualpipev_P2_M4_v2.comms", "1f1b_runtime_P2_M4_v1.comms")
    ]
    loose = b"rank 0: F0 F1 . B0 . B1\nrank 1: . F0 B0 F1 B1 .\n"
    events = b"".join(formats.load("chrome").write(report))
    profile = golden_data.data("inputs/traces/GPipe_P2_M4_v1.rank0.json")
    profile = profile.replace(b'"rank": 0, "world_size": 2', b'"rank": 0, "world_size": 1')
    return {
        "json": (formats.load("json").write(report),),
        "jsonl": (formats.load("jsonl").write(report),),
        "chrome": (events, profile),
        "torch-compute": (csv[0],),
        "torch-comms": (csv[1], csv[2]),
        "grid": (picture, loose),
        "costs": (COSTS,),
    }


def mutated(rng: random.Random, reader: str) -> bytes:
    """Words at random, noise at random, or a right file (mostly of this reader's kind) with a few wrong places."""
    kind = rng.random()
    if kind < 0.1:
        return rng.randbytes(rng.randrange(200))
    if kind < 0.3:
        joint = rng.choice([b"", b",", b" ", b"\n"])
        return joint.join(rng.choices(WORDS, k=rng.randrange(1, 60)))
    data = bytearray(rng.choice(seeds()[reader if rng.random() < 0.8 else rng.choice(READERS)]))
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        at, length = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 8, 50])
        change = rng.randrange(9)
        if change == 0:
            del data[at : at + length]
        elif change == 1:
            data[at:at] = rng.choice(WORDS)
        elif change == 2:
            data[at : at + length] = rng.choice(WORDS)
        elif change == 3 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif change == 4:
            other = rng.randrange(len(data) + 1)
            data[at:at] = data[other : other + length]
        elif change == 5:
            del data[at + rng.choice([0, 200]) :]
        elif found := re.compile(rb"\d+").search(data, at):  # another number, so that the file still reads
            data[found.start() : found.end()] = rng.choice(NUMBERS)
    return bytes(data)


def answer(reader: str, data: bytes, rng: random.Random) -> None:
    """Read, and do with what was read what the commands do first."""
    if reader == "costs":
        costs_toml.read(data, source="fuzz")
        return
    options = {"letter": rng.choice(["auto", "full", "input"])} if formats.FORMATS[reader].has_letters else {}
    if rng.random() < 0.3:
        document = formats.read(data, "fuzz", reader, keep_faults=True, **options)
        source = document.listing or document.timeline
        found = check(source, lifetimes=document.lifetimes)
        assert all(finding.sentence.isprintable() for finding in found.findings)
        return
    document = formats.read(data, "fuzz", reader, **options)
    if document.listing is not None:
        if rng.random() < 0.1:
            lower(document.listing, rng.choice(RECEIVE_CHOICES))
        schedule = schedule_of(document.listing, incomplete=rng.random() < 0.3).schedule
        simulate_schedule(schedule, deps=dependencies(schedule))


@pytest.mark.parametrize("reader", READERS)
def test_any_bytes_give_an_answer_or_one_line(reader: str) -> None:
    rng = random.Random(f"{SEED} {reader}")
    seeds()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answers = refusals = 0
    for number in range(COUNT):
        data = mutated(rng, reader)
        try:
            answer(reader, data, rng)
            answers += 1
        except PptraceError as error:
            message = str(error)
            assert "\n" not in message, (number, data)
            assert len(message) < 2000, (number, data)
            assert message.isprintable(), (number, data)
            refusals += 1
    assert answers + refusals == COUNT
    assert answers > 0, "the generator makes nothing that this reader can read"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < MOST_MEGABYTES


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"{", b"[" * 100_000, b"\x00" * 1000, b"\xff\xfe0"])
def test_bytes_without_a_format_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(PptraceError, match=r"^[^\n]+$"):
        formats.read(data, "fuzz")
