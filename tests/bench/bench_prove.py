"""How long proofs take: one step of 8 ranks and 32 microbatches, exactly, as command and as function; larger ones in float64.

python tests/bench/bench_prove.py
"""

from __future__ import annotations

from measure import PPTRACE, command, compile_package, figure, heading, medians

from pptrace.proof.problem import Problem
from pptrace.proof.prove import prove
from pptrace.schedules.registry import Params, build


def proof(name: str, num_ranks: int, num_microbatches: int, arithmetic: str = "exact") -> None:
    schedule = build(name, Params(num_ranks, num_microbatches))
    problem = Problem(schedule.num_stages, schedule.num_microbatches, arithmetic_name=arithmetic)
    if not prove(schedule, problem=problem).proved:
        message = f"{name} P={num_ranks} M={num_microbatches} is not proved"
        raise SystemExit(message)


def main() -> None:
    compile_package()
    heading("pptrace prove, P=8 M=32, one step, exact")
    for name in ("1f1b", "zb-h1", "dualpipev"):
        (taken,) = medians([command(PPTRACE, "prove", name, "-P", "8", "-M", "32")], runs=3)
        figure(f"{name}, the command", taken, "s", at_most=5)
    heading("the function")
    jobs = [
        ("1f1b P=8 M=32, exact", lambda: proof("1f1b", 8, 32)),
        ("1f1b P=8 M=320, exact", lambda: proof("1f1b", 8, 320)),
        ("1f1b P=64 M=64, exact", lambda: proof("1f1b", 64, 64)),
        ("1f1b P=8 M=320, float64", lambda: proof("1f1b", 8, 320, "float64")),
        ("1f1b P=8 M=320, float32", lambda: proof("1f1b", 8, 320, "float32")),
    ]
    for (what, _), taken in zip(jobs, medians([job for _, job in jobs], runs=3), strict=True):
        figure(what, taken, "s")


if __name__ == "__main__":
    main()
