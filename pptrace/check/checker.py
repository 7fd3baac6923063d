"""The entry point: everything that can be said against a listing, a schedule or a timeline, and the verdict on its progress."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from pptrace.analysis.recognition import MOST_OPS, recognize
from pptrace.check.advice import advice_findings
from pptrace.check.events import GROUPINGS, SENDS, Assumptions
from pptrace.check.findings import CheckReport, Finding, Place, Verdict, ordered
from pptrace.check.kinds import ERROR, KINDS
from pptrace.check.ledger import Ledger
from pptrace.check.messages import Messages
from pptrace.check.program import Program, from_listing, from_schedule
from pptrace.check.runs import compute_of, run_program
from pptrace.check.state import StoredLifetime, lifetime_findings, state_findings
from pptrace.check.structure import find_faults
from pptrace.check.timing import of_slots, of_timeline, timing_findings
from pptrace.errors import ParameterError
from pptrace.listing import Listing
from pptrace.model import Schedule
from pptrace.schedules.registry import REGISTRY
from pptrace.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from pptrace.costs import Costs

MOST_OF_A_KIND = 20
"""So many findings of one kind are told one by one; the others are counted in one more."""


class CheckOptions(NamedTuple):
    """What the check assumes and asks for. `num_microbatches`: M, where the file's own count is not to be believed.

    `sends` "buffered" or "rendezvous", `grouping` "per-op" or "batched", `tags`: how messages behave. `buffers`: slots of a
    ring per stage; `max_activations`: allowed per rank; `release`: "own" or "oldest". `tolerance`: time that a measured op
    may start too early, in units of time. `advice`: also say what is legal but wasteful, with `costs` where given.
    """

    sends: str = "buffered"
    grouping: str = "per-op"
    tags: bool = True
    num_microbatches: int | None = None
    buffers: int | None = None
    max_activations: int | None = None
    release: str = "own"
    tolerance: Fraction | int = 0
    advice: bool = True
    costs: Costs | None = None


DEFAULTS = CheckOptions()


def check(
    source: Listing | Schedule | Timeline,
    options: CheckOptions = DEFAULTS,
    *,
    lifetimes: Sequence[StoredLifetime] = (),
) -> CheckReport:
    """Check a listing (a file as written), a schedule, or a timeline (a schedule with times), in time linear in its ops.

    `lifetimes` are those that a trace states. Raises `ParameterError` for an option that is none, `LimitError` for absurd
    numbers in a listing.
    """
    _check_options(options)
    with _without_collector():
        return _checked(source, options, lifetimes)


def _checked(
    source: Listing | Schedule | Timeline, options: CheckOptions, lifetimes: Sequence[StoredLifetime]
) -> CheckReport:
    program = _program(source, options.num_microbatches)
    findings: list[Finding] = []
    if options.num_microbatches and program.codes and program.num_microbatches != options.num_microbatches:
        sentence = (
            f"the schedule runs {program.num_microbatches} microbatches, {options.num_microbatches} were asked for"
        )
        findings.append(Finding("microbatch-count", Place(), sentence, (), "run every microbatch"))
    sizes = _sizes(program)
    ledger = Ledger(program, findings)
    find_faults(ledger)
    if not any(code >= 0 for code in program.codes):
        return CheckReport(_limited(findings), Verdict(None, "there is nothing to run", ()), sizes)
    if program.has_messages or ledger.message_strays:
        Messages(ledger).run()
    assumed = Assumptions(options.sends, options.grouping, options.tags)
    compute = compute_of(program)
    verdict = run_program(program, compute, ledger.excused, assumed, findings)
    findings += state_findings(
        program,
        buffers=options.buffers,
        max_activations=options.max_activations,
        release=options.release,
    )
    if isinstance(source, Timeline):
        delays = options.advice and source.costs.link != "blocking"
        findings += timing_findings(of_timeline(program, source), options.tolerance, delays=delays)
        findings += lifetime_findings(source, lifetimes)
    elif program.slots:
        findings += timing_findings(of_slots(program, *compute), options.tolerance, delays=options.advice)
    if options.advice and verdict.runs and not any(finding.severity == ERROR for finding in findings):
        findings += advice_findings(program, compute, options.costs)
    return CheckReport(_limited(findings), verdict, sizes, _order(source, compute.schedule, findings))


def _order(source: Listing | Schedule | Timeline, schedule: Schedule, findings: list[Finding]) -> str:
    """Which registered order it is or is nearest to. What is registered says so itself."""
    named = (
        source.name if isinstance(source, Schedule) else source.schedule.name if isinstance(source, Timeline) else ""
    )
    if named in REGISTRY or schedule.num_ops > MOST_OPS:
        return ""
    faulty = any(finding.severity == ERROR and KINDS[finding.code].group == "structure" for finding in findings)
    return ("its faults aside, " if faulty else "") + recognize(schedule).sentence()


@contextmanager
def _without_collector() -> Iterator[None]:
    """Millions of small objects that live to the end are made here; the garbage collector would walk them again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _program(source: Listing | Schedule | Timeline, wanted: int | None) -> Program:
    if isinstance(source, Listing):
        return from_listing(source, wanted)
    return from_schedule(source.schedule if isinstance(source, Timeline) else source)


def _sizes(program: Program) -> str:
    """How many ranks, stages, microbatches, steps and ops there are, as the header says it."""
    counts = [(program.num_ranks, "rank"), (program.num_stages, "stage"), (program.num_microbatches, "microbatch")]
    if program.num_steps > 1:
        counts.append((program.num_steps, "step"))
    counts.append((len(program.codes), "op"))
    plural = {"microbatch": "microbatches"}
    return ", ".join(f"{count} {noun if count == 1 else plural.get(noun, noun + 's')}" for count, noun in counts)


def _check_options(options: CheckOptions) -> None:
    for value, allowed, name in (
        (options.sends, SENDS, "--sends"),
        (options.grouping, GROUPINGS, "--grouping"),
        (options.release, ("own", "oldest"), "--release"),
    ):
        if value not in allowed:
            message = f"{name} is {' or '.join(allowed)}, got {str(value)[:40]!r}"
            raise ParameterError(message)
    for number, name in (
        (options.num_microbatches, "-M (microbatches)"),
        (options.buffers, "--buffers"),
        (options.max_activations, "--max-activations"),
    ):
        if number is not None and number < 1:
            message = f"{name} must be at least 1, got {number}"
            raise ParameterError(message)
    if options.tolerance < 0:
        message = f"--tolerance must be zero or more, got {options.tolerance}"
        raise ParameterError(message)


def _limited(findings: list[Finding]) -> tuple[Finding, ...]:
    """In order of severity, at most MOST_OF_A_KIND of each kind and a count of the others."""
    counts = Counter(finding.code for finding in findings)
    seen: Counter[str] = Counter()
    kept = []
    for finding in findings:
        seen[finding.code] += 1
        if seen[finding.code] <= MOST_OF_A_KIND:
            kept.append(finding)
        elif seen[finding.code] == MOST_OF_A_KIND + 1:
            more = counts[finding.code] - MOST_OF_A_KIND
            kept.append(
                finding._replace(
                    sentence=f"{finding.sentence} (and {more - 1} more of this kind)" if more > 1 else finding.sentence
                )
            )
    return ordered(kept)
