"""How soon the command answers, beside a Python that only imports what the command cannot do without.

python tests/bench/bench_startup.py
"""

from __future__ import annotations

from measure import PPTRACE, PYTHON, command, compile_package, figure, heading, medians, on_terminal

SIZES = ("1f1b", "-P", "4", "-M", "4")


def main() -> None:
    compile_package()
    heading("start-up, medians of 31 runs in turn")
    pairs = [
        (
            "pptrace trace 1f1b -P 4 -M 4",
            command(PPTRACE, "trace", *SIZES),
            "import click, msgspec, json",
            command(PYTHON, "-c", "import click, msgspec, json"),
            1.5,
        ),
        (
            "pptrace show 1f1b -P 4 -M 4 on a terminal",
            on_terminal(PPTRACE, "show", *SIZES),
            "import click, rich.console",
            on_terminal(PYTHON, "-c", "import click, rich.console"),
            1.5,
        ),
        (
            "pptrace --version",
            command(PPTRACE, "--version"),
            "import click",
            command(PYTHON, "-c", "import click"),
            1.2,
        ),
    ]
    for what, ours, baseline, theirs, limit in pairs:
        taken, base = medians([ours, theirs], runs=31)
        figure(what, taken * 1000, "ms")
        figure(f"python -c '{baseline}'", base * 1000, "ms")
        figure("  the one over the other", taken / base, "x", at_most=limit)


if __name__ == "__main__":
    main()
