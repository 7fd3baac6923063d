"""Whatever is written, the checker answers: no traceback, no endless loop, for random cells under every assumption."""

from __future__ import annotations

import random

import pytest

from pptrace.check.checker import CheckOptions, check
from pptrace.check.kinds import KINDS
from pptrace.listing import Cell, Listing
from pptrace.model import KINDS_WITHOUT_MICROBATCH, Op, OpKind

LISTINGS_PER_SEED = 60


def random_cell(rng, stages, microbatches):
    def op():
        kind = rng.choice([OpKind.F, OpKind.B, *OpKind])
        number = None if kind in KINDS_WITHOUT_MICROBATCH else rng.randrange(-1, microbatches + 1)
        stage = rng.choice([rng.randrange(stages), rng.randrange(stages), rng.choice([stages, 10**6, 10**9 - 1])])
        return Op(
            stage, kind, number if rng.random() < 0.98 else rng.choice([None, 10**9 - 1]), int(rng.random() < 0.05)
        )

    ops = tuple(op() for _ in range(rng.choices([0, 1, 2], [1, 20, 2])[0]))
    return Cell(ops, "".join(map(str, ops)) or "\x1b[2J?", rng.randrange(3), rng.randrange(9))


@pytest.mark.parametrize("seed", range(8))
def test_random_listings_are_answered(seed):
    rng = random.Random(seed)
    for _ in range(LISTINGS_PER_SEED):
        stages, microbatches = rng.randint(1, 4), rng.randint(1, 4)
        rows = tuple(
            tuple(random_cell(rng, stages, microbatches) for _ in range(rng.randint(0, 12)))
            for _ in range(rng.randint(1, 4))
        )
        slots = tuple(tuple(sorted(rng.choices(range(30), k=len(row)))) for row in rows) if rng.random() < 0.3 else ()
        options = CheckOptions(
            sends=rng.choice(["buffered", "rendezvous"]),
            grouping=rng.choice(["per-op", "batched"]),
            tags=rng.random() < 0.5,
            num_microbatches=rng.choice([None, 1, 3]),
            buffers=rng.choice([None, 2]),
            max_activations=rng.choice([None, 1]),
            release=rng.choice(["own", "oldest"]),
        )
        found = check(Listing(rows, slots=slots), options)
        assert all(finding.code in KINDS for finding in found.findings)
        assert not any("\x1b" in finding.sentence or "\n" in finding.sentence for finding in found.findings)
