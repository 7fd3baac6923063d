"""The table of all kinds of finding: codes, severities, titles, explanations. A code stays the same from version to version."""

from __future__ import annotations

from typing import NamedTuple

ERROR = "error"
WARNING = "warning"
ADVICE = "advice"
SEVERITIES = (ERROR, WARNING, ADVICE)


class Kind(NamedTuple):
    """One row of the table behind `check --list` and `check --explain CODE`."""

    severity: str
    group: str
    title: str
    explanation: str


def _kinds(severity: str, group: str, *rows: tuple[str, str, str]) -> dict[str, Kind]:
    return {code: Kind(severity, group, title, explanation) for code, title, explanation in rows}


KINDS: dict[str, Kind] = {
    **_kinds(
        ERROR,
        "structure",
        (
            "empty-schedule",
            "no op at all",
            "Nothing is scheduled, so there is nothing that could be right.",
        ),
        (
            "unknown-op",
            "a cell that is no op",
            "An op is stage, kind, microbatch, for example 2F0; an overlapped pair is (0F7;7B0)OVERLAP_F_B.",
        ),
        (
            "unknown-stage",
            "an op of a stage that the schedule does not have",
            "The other ops tell how many stages there are; this op's stage number is beyond them.",
        ),
        (
            "missing-stage",
            "a stage that nobody runs",
            "Stages are numbered without gaps; one number between the first and the last never occurs, so the stage after "
            "it would wait for ever.",
        ),
        (
            "microbatch-range",
            "a microbatch number out of range",
            "Microbatches are numbered 0..M-1. M is the number that most stages agree on.",
        ),
        (
            "misnumbered",
            "ops with wrong microbatch numbers",
            "The number of ops is right, but their microbatch numbers are not: a whole row is shifted (1..M), or one number "
            "stands where another is missing. PyTorch 2.13's Schedule1F1B.pipeline_order does this on its last rank.",
        ),
        (
            "microbatch-count",
            "a stage that runs another number of microbatches",
            "Every microbatch passes every stage. A stage that leaves some out, or all stages when another M was asked for.",
        ),
        (
            "missing-forward",
            "a forward that never runs",
            "What waits for its output waits for ever, and its own backward has nothing saved to work on.",
        ),
        (
            "missing-backward",
            "a backward that never runs",
            "The gradient of that microbatch is lost, the stage before waits for ever, and its activation is never released.",
        ),
        (
            "lost-cooldown",
            "the end of a rank's list is cut off",
            "The list of the rank ends too early. What looks like a shorter schedule is one that lost work: the activations "
            "of those microbatches are still held at the end.",
        ),
        (
            "lost-weight-gradient",
            "an I without its W",
            "I computes the gradient for the input only; without W the weights never learn from that microbatch. The I "
            "does not silently become a full backward.",
        ),
        (
            "weight-gradient-alone",
            "a W without its I",
            "W works on what I has left behind; without I there is nothing, and the stage before gets no gradient.",
        ),
        (
            "full-and-split-backward",
            "a microbatch with both B and I or W",
            "B is the full backward, I + W. Running a half of it again counts that gradient twice.",
        ),
        (
            "doubled-op",
            "an op that occurs more than once",
            "Every op runs once. A second forward overwrites what is saved, a second backward counts a gradient twice.",
        ),
        (
            "stage-on-two-ranks",
            "an op on a rank that does not hold its stage",
            "A stage lives on one rank (on one per direction where two copies run in opposite directions); another rank has "
            "neither its weights nor what its forward saved.",
        ),
        (
            "backward-before-forward",
            "a backward before its forward",
            "The backward needs what the forward of the same stage and microbatch has saved.",
        ),
        (
            "weight-gradient-first",
            "a W before its I",
            "W works on what I leaves behind, so it comes any time after I.",
        ),
        (
            "early-update",
            "REDUCE or STEP before the last backward",
            "A flush schedule reduces gradients and updates the weights once all backwards of the step are done; what comes "
            "later is lost, or is added to the next step.",
        ),
        (
            "missing-update",
            "a stage that is never reduced or updated",
            "Other stages have a REDUCE, STEP or REDUCE_GRAD at the end of the step, this one has none.",
        ),
        (
            "not-gathered",
            "an op of a stage whose weights are not gathered",
            "Where weights are sharded, UNSHARD gathers those of a stage and RESHARD frees them. Every op of the stage runs "
            "between the two; PyTorch stops at an op outside of them, and at a second UNSHARD or RESHARD.",
        ),
        (
            "odd-pair",
            "an overlapped pair that cannot run as one block",
            "A pair is one forward and one backward of different microbatches or stages; neither may wait for the other.",
        ),
    ),
    **_kinds(
        ERROR,
        "progress",
        (
            "order-deadlock",
            "the order of the ops never ends",
            "Ranks wait for each other in a circle, whatever the messages do: each one's next op needs the output of an op "
            "that comes later in another's list.",
        ),
        (
            "message-deadlock",
            "the messages never end",
            "The order of the compute ops is fine, but sends and receives wait for each other in a circle. With rendezvous "
            "sends a send ends only when its receive is posted; batched means that adjacent sends and receives of a rank "
            "are posted together and end together.",
        ),
        (
            "missing-receive",
            "an op without its receive",
            "The input comes from another rank, and no receive for it stands before the op.",
        ),
        (
            "missing-send",
            "a receive without its send",
            "Nobody sends what the receive waits for, so it waits for ever.",
        ),
        (
            "doubled-message",
            "a send or receive that occurs more than once",
            "The second receive waits for ever, or takes another message; the second send is never taken.",
        ),
        (
            "misnumbered-message",
            "a send or receive with a wrong microbatch number",
            "One message occurs twice and another never: one of the two has the wrong number.",
        ),
        (
            "send-before-op",
            "a send before the op that produces it",
            "It would send what is not computed yet.",
        ),
        (
            "receive-after-op",
            "a receive after the op that needs it",
            "The op would start without its input.",
        ),
        (
            "receive-of-another",
            "a receive of another microbatch",
            "What the rank has received when the op runs belongs to another microbatch; the op would compute on wrong data.",
        ),
        (
            "message-without-peer",
            "a message that nobody can send or take",
            "Stage 0 receives no activation and the last stage no gradient, and between two stages of the same rank there "
            "is no message.",
        ),
        (
            "message-order",
            "untagged messages taken for each other",
            "Without tags the k-th receive from a rank takes the k-th message that it sends. Where the two orders differ, ops "
            "run on another microbatch's data, and nothing fails.",
        ),
    ),
    **_kinds(
        WARNING,
        "progress",
        (
            "ambiguous-messages",
            "untagged messages that are told apart by their order alone",
            "Activations and gradients (or those of several stages) go from one rank to the same other rank without a tag. "
            "Any change of order on one side gives wrong data without an error.",
        ),
        (
            "idle-rank",
            "a rank without ops",
            "The list of the rank is empty.",
        ),
    ),
    **_kinds(
        ERROR,
        "state",
        (
            "activation-overwritten",
            "an activation overwritten in its ring of buffers",
            "With N buffers microbatch m is kept in slot m mod N; a forward writes into a slot whose microbatch still waits "
            "for its backward.",
        ),
        (
            "too-many-activations",
            "more live activations than allowed",
            "A rank holds an activation from the start of a forward to the end of its B (or W).",
        ),
        (
            "released-for-another",
            "an activation released for another microbatch",
            "A saved activation may be reused only when its own consumer has finished. A backward that takes the oldest one of "
            "a queue is right only where backwards come in the order of the forwards.",
        ),
        (
            "used-after-release",
            "an activation used after its release",
            "Its lifetime ends before the op that needs it has ended.",
        ),
        (
            "never-released",
            "an activation that is never released",
            "Its lifetime does not end where its last consumer ends.",
        ),
        (
            "memory-limit",
            "more bytes than allowed",
            "A rank holds more than --memory-limit at its peak, as far as sizes are given.",
        ),
        (
            "weight-versions",
            "forward and backward with different weights",
            "Under a flush all F and B of a step use one weight version; here a STEP of the stage lies between them, or a "
            "forward of the next step comes before it.",
        ),
    ),
    **_kinds(
        ERROR,
        "timing",
        (
            "starts-too-early",
            "an op that starts before something it waits for",
            "In a timed trace an op can start only when its input has arrived. Columns of a schedule file are no time axis.",
        ),
        (
            "overlap-on-rank",
            "two ops of one rank at the same time",
            "A rank runs one compute op at a time (an overlapped pair counts as one).",
        ),
    ),
    **_kinds(
        WARNING,
        "timing",
        (
            "edited-trace",
            "a trace that contradicts itself",
            "Dependencies, lifetimes or metrics that are stored in the trace are not those that its events give: somebody "
            "edited the file, or it comes from elsewhere.",
        ),
    ),
    **_kinds(
        ADVICE,
        "timing",
        (
            "chosen-delay",
            "ops that could have started earlier",
            "Legal: the rank was free and everything the op waits for was there.",
        ),
    ),
    **_kinds(
        ADVICE,
        "advice",
        (
            "wasteful-groups",
            "interleaved groups that leave bubbles",
            "Groups that do not fit the number of microbatches leave ranks idle; another group size runs the same work faster.",
        ),
        (
            "long-warmup",
            "a warm-up one forward too long",
            "One forward fewer before the first backward takes the same time and holds fewer activations.",
        ),
        (
            "late-receive",
            "a receive posted late",
            "Where a message travels only once its receive is posted, a receive that stands right before its op delays it.",
        ),
    ),
}
