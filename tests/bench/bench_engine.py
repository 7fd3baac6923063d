"""How fast the engine is: 1f1b at P=64 M=4096 (524,288 ops), its building included, beside 65,536 ops; and its memory.

python tests/bench/bench_engine.py
"""

from __future__ import annotations

import time
import tracemalloc

from measure import figure, heading, medians

from pptrace.schedules.registry import Params, build
from pptrace.timeline import Timeline, simulate_schedule


def simulate(num_microbatches: int) -> Timeline:
    return simulate_schedule(build("1f1b", Params(64, num_microbatches)))


def main() -> None:
    heading("engine: 1f1b, P=64, building included")
    jobs = [lambda: simulate(4096), lambda: simulate(512)]
    num_large, num_small = 2 * 64 * 4096, 2 * 64 * 512
    for name, clock in (("on the wall", time.perf_counter), ("of the processor", time.process_time)):
        large, small = medians(jobs, runs=7, clock=clock)
        figure(f"{num_large:,} ops a second {name}", num_large / large / 1e6, "Mops/s", at_least=1.2)
        figure(f"{num_small:,} ops a second {name}", num_small / small / 1e6, "Mops/s")
        ratio = large / num_large / (small / num_small)
        figure(f"time per op over that at {num_small:,} ops, {name}", ratio, "x", at_most=1.4)
    tracemalloc.start()
    timeline = simulate(4096)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    figure("memory at its peak", peak / timeline.schedule.num_ops, "bytes/op", at_most=250)


if __name__ == "__main__":
    main()
