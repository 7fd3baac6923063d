"""What writing a Chrome trace adds to the memory of the model, and how long it takes, at a million events and more.

python tests/bench/bench_chrome.py
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from time import perf_counter

from measure import figure, heading

from pptrace.analysis.report import Report
from pptrace.costs import Costs, values
from pptrace.formats import chrome_trace
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule

MEGABYTE = 1 << 20


def main() -> None:
    heading("1f1b -P 64 -M 2048 -c 1/3 (262,144 ops) as a Chrome trace")
    schedule = build("1f1b", Params(64, 2048))
    costs = Costs(values(1), values(2), values(1), comm=values("1/3").numbers)
    report = Report(simulate_schedule(schedule, costs))

    begin = perf_counter()
    size = events = 0
    for piece in chrome_trace.write(report):
        size += len(piece)
        events += piece.count(b'{"ph":')
    figure("time to write it", perf_counter() - begin, "s")
    figure("size of the file", size / MEGABYTE, "MiB")
    figure("events in it", events / 10**6, "million")

    gc.collect()
    tracemalloc.start()
    deque(chrome_trace.write(report), maxlen=0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    figure("memory added to the model, at most", peak / MEGABYTE, "MiB", at_most=50)


if __name__ == "__main__":
    main()
