"""How long figures of P=64 M=512 1f1b (65,536 ops) take, the whole process, and how large they are.

python tests/bench/bench_figures.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from measure import PPTRACE, PYTHON, command, compile_package, figure, heading, medians

RUNS = 5


def main() -> None:
    compile_package()
    heading(f"pptrace show 1f1b -P 64 -M 512 (65,536 ops) -o FILE, medians of {RUNS} runs in turn")
    with tempfile.TemporaryDirectory() as place:
        files = {suffix: Path(place, f"figure{suffix}") for suffix in (".svg", ".html")}
        jobs = [command(PPTRACE, "show", "1f1b", "-P", "64", "-M", "512", "-o", str(file)) for file in files.values()]
        curves = command(
            *(PPTRACE, "show", "1f1b", "-P", "64", "-M", "512", "--curve", "--lifetimes", "--arrows"),
            *("-o", str(Path(place, "all.svg"))),
        )
        start = command(PYTHON, "-c", "import click")
        svg, page, everything, base = medians([*jobs, curves, start], runs=RUNS)
        figure("svg", svg, "s", at_most=3)
        figure("html", page, "s")
        figure("svg with lifetimes, curve and arrows", everything, "s")
        figure("python -c 'import click'", base, "s")
        for suffix, file in files.items():
            figure(f"size of the {suffix[1:]} file", file.stat().st_size / 2**20, "MiB")


if __name__ == "__main__":
    main()
