"""How long `pptrace trace` takes at P=64 M=512 (65,536 ops), beside a Python that dumps as many dicts of the same fields.

python tests/bench/bench_trace.py
"""

from __future__ import annotations

from measure import PPTRACE, PYTHON, command, compile_package, figure, heading, medians

DUMP = """
import json
json.dumps([
    {"id": f"{i % 64}F{i % 512}", "rank": i % 64, "stage": i % 64, "op": "F", "microbatch": i % 512, "step": 0,
     "start": i, "end": i + 1, "after": [f"{i % 64 - 1}F{i % 512}"]}
    for i in range(65536)
])
"""


def main() -> None:
    compile_package()
    heading("pptrace trace 1f1b -P 64 -M 512 (65,536 ops), medians of 9 runs in turn")
    taken, base = medians(
        [command(PPTRACE, "trace", "1f1b", "-P", "64", "-M", "512"), command(PYTHON, "-c", DUMP)], runs=9
    )
    figure("pptrace trace", taken * 1000, "ms")
    figure("python -c, json.dumps of 65,536 dicts", base * 1000, "ms")
    figure("  the one over the other", taken / base, "x", at_most=5)


if __name__ == "__main__":
    main()
