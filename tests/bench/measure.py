"""What the benchmarks share: commands timed in turn, medians, and one line a figure. Not collected by pytest."""

from __future__ import annotations

import compileall
import os
import pty
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pptrace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PYTHON = sys.executable
PPTRACE = str(Path(sys.executable).with_name("pptrace"))


def compile_package() -> None:
    """Write the package's bytecode, as installing a wheel does; a checkout may have none."""
    compileall.compile_dir(Path(pptrace.__file__).parent, quiet=1)


def heading(text: str) -> None:
    print(f"{text}\n  {os.cpu_count()} cores, Python {sys.version.split()[0]}")


def figure(what: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None) -> None:
    """One line: the figure, its limit, and whether it keeps it."""
    limit = (
        f"at most {at_most:,g}" if at_most is not None else f"at least {at_least:,g}" if at_least is not None else ""
    )
    kept = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
    verdict = ("ok" if kept else "MISSED") if limit else ""
    print(f"  {what:<58} {value:>12,.3g} {unit:<8} {limit:<22} {verdict}")


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    work()
    return clock() - begin


def medians(
    jobs: Sequence[Callable[[], object]], runs: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The median time of each job; they take turns, so that whatever else the machine does meets them alike. With the clock
    `time.process_time` only the time on the processor counts: for jobs of one thread in this process, beside others."""
    times: list[list[float]] = [[] for _ in jobs]
    for job in jobs:
        job()
    for _ in range(runs):
        for job, taken in zip(jobs, times, strict=True):
            taken.append(seconds(job, clock))
    return [statistics.median(taken) for taken in times]


def command(*words: str, code: int = 0) -> Callable[[], None]:
    """A job that runs a command, which has to leave with `code`, with its output thrown away."""

    def run() -> None:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != code:
            sys.exit(f"{' '.join(words)} left with {done.returncode}, not {code}")

    return run


def on_terminal(*words: str) -> Callable[[], None]:
    """A job that runs a command on a terminal of its own, with colour, and reads what it draws."""

    def run() -> None:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
        environment.pop("NO_COLOR", None)
        with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
            os.close(theirs)
            drawn = b""
            while chunk := _read(ours):
                drawn += chunk
        os.close(ours)
        if process.returncode or (b"\x1b[" not in drawn and "show" in words):
            sys.exit(f"{words} gave {process.returncode} and\n{drawn.decode(errors='replace')[:2000]}")

    return run


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end was closed
        return b""
