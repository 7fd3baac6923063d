"""How fast every schedule is built and timed at P=16 M=128, v=2 where it has chunks; v-half and v-min also at P=64 M=512.

python tests/bench/bench_schedules.py
"""

from __future__ import annotations

from measure import figure, heading, medians, seconds

from pptrace.costs import Costs, values
from pptrace.schedules.registry import Params, build, entry, names
from pptrace.timeline import simulate_schedule

SLOWER = ("v-half", "v-min")
COSTS = Costs(values(1), values(2), values(1))


def main() -> None:
    heading("schedules: built and timed at P=16 M=128, v=2 where they have chunks")
    for name in names():
        params = Params(16, 128, 2 if "chunks" in entry(name).options else None)
        num_ops = build(name, params).num_ops
        (taken,) = medians([lambda n=name, p=params: simulate_schedule(build(n, p), COSTS)], runs=15)
        limit = None if name in SLOWER else 0.7
        figure(f"{name}, {num_ops:,} ops", num_ops / taken / 1e6, "Mops/s", at_least=limit)
    for name in SLOWER:
        taken = seconds(lambda n=name: simulate_schedule(build(n, Params(64, 512)), COSTS))
        figure(f"{name} at P=64 M=512", taken, "s", at_most=4)


if __name__ == "__main__":
    main()
