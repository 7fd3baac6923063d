"""The report: one timeline and everything that is shown of it, each computed once, when first asked for.

Renderers, formats and the command line take a Report; nothing is computed outside analysis/.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from pptrace.analysis.advice import advice
from pptrace.analysis.assumptions import OMITTED, assumptions, headline
from pptrace.analysis.closed_forms import Comparison, closed_forms
from pptrace.analysis.idle import Idle, idle
from pptrace.analysis.lifetimes import Lifetime, lifetimes
from pptrace.analysis.memory import Memory
from pptrace.analysis.metrics import Metric, metrics
from pptrace.analysis.phases import Phases, phases
from pptrace.analysis.weight_versions import WeightVersions, weight_versions
from pptrace.analysis.work import Work, work

if TYPE_CHECKING:
    from pptrace.analysis.bytes_held import Bytes, RankBytes
    from pptrace.costs import Costs
    from pptrace.model import Schedule
    from pptrace.timeline import Timeline


class Report:
    """Everything that `show` prints of one timeline. `notes` are sentences of whoever made the timeline (a derived M, what
    a file's letter B was taken for), for the header."""

    def __init__(self, timeline: Timeline, *, notes: tuple[str, ...] = ()) -> None:
        self.timeline = timeline
        self.notes = notes
        self.omitted = OMITTED

    def with_notes(self, notes: tuple[str, ...]) -> Report:
        """The same report under other notes; what was computed is not computed again."""
        other = Report(self.timeline, notes=notes)
        other.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("notes", "assumptions")})
        return other

    @property
    def schedule(self) -> Schedule:
        return self.timeline.schedule

    @property
    def costs(self) -> Costs:
        return self.timeline.costs

    @cached_property
    def work(self) -> Work:
        return work(self.timeline)

    @cached_property
    def lifetimes(self) -> list[Lifetime]:
        return lifetimes(self.timeline)

    @cached_property
    def memory(self) -> Memory:
        return Memory(self.timeline, self.lifetimes)

    @cached_property
    def bytes(self) -> Bytes | None:
        """Peak bytes per rank, or None where no size was given."""
        if not self.costs.sizes:
            return None
        from pptrace.analysis.bytes_held import bytes_held  # noqa: PLC0415  (few reports have sizes)

        return bytes_held(self.timeline, self.lifetimes, self.costs.sizes)

    @cached_property
    def versions(self) -> WeightVersions:
        return weight_versions(self.timeline)

    @cached_property
    def phases(self) -> Phases:
        return phases(self.timeline)

    @cached_property
    def idle(self) -> Idle:
        return idle(self.timeline, self.work)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        return metrics(self.timeline, self.work, self.memory, self.idle, self._saved_bytes())

    def _saved_bytes(self) -> tuple[RankBytes, ...]:
        """The peaks of saved activations alone, in bytes; empty where their size is not known."""
        sizes = self.costs.sizes
        if sizes is None or sizes.activation is None:
            return ()
        from pptrace.analysis.bytes_held import bytes_held  # noqa: PLC0415  (few reports have sizes)

        only = type(sizes)(activation=sizes.activation, after_input=sizes.after_input)
        return bytes_held(self.timeline, self.lifetimes, only).ranks

    @cached_property
    def closed_forms(self) -> list[Comparison]:
        soonest = self.idle.budget["chosen delay"] == 0
        return closed_forms(self.timeline, self.metrics, soonest=soonest)

    @cached_property
    def advice(self) -> str:
        """One sentence on parameters that would save time, or empty."""
        return advice(self.timeline)

    @cached_property
    def assumptions(self) -> list[str]:
        """The header's sentences: what every number below rests on."""
        return [*assumptions(self.timeline), *self.notes]

    @cached_property
    def headline(self) -> tuple[str, str, str]:
        """The first line in three parts: the schedule, its sizes, its costs."""
        return headline(self.timeline)
