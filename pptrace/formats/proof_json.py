"""A proof as JSON, `pptrace.proof/1`. Numbers are exact texts (`-3/8`) where they are short, else decimals with a `~`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pptrace.proof.lesson import explained, number_text
from pptrace.proof.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pptrace.proof.choices import Choice
    from pptrace.proof.compare import Compared
    from pptrace.proof.lesson import Lesson
    from pptrace.proof.prove import Proof

SCHEMA = "pptrace.proof/1"


def write_proof(proof: Proof, choice: Choice, found: Sequence[Lesson], notes: Sequence[str] = ()) -> bytes:
    """One JSON document, with a newline at its end."""
    return (json.dumps(proof_fields(proof, choice, found, notes), ensure_ascii=True) + "\n").encode()


def proof_fields(proof: Proof, choice: Choice, found: Sequence[Lesson], notes: Sequence[str] = ()) -> dict[str, Any]:
    """The document as a dict. `expected`: all that differs is what the lessons expect."""
    schedule, comparison = proof.schedule, proof.comparison
    return {
        "schema": SCHEMA,
        "schedule": {
            "name": schedule.name,
            "ranks": schedule.num_ranks,
            "stages": schedule.num_stages,
            "microbatches": schedule.num_microbatches,
            "steps": schedule.num_steps,
            "asynchronous": schedule.asynchronous,
        },
        **choice._asdict(),
        "updates": len(proof.updates),
        "proved": proof.proved,
        "equal": comparison.equal,
        "expected": explained(found),
        "sentence": proof.sentence(),
        "verdict": verdict(proof, found),
        "refused": proof.refused or None,
        "notes": list(notes),
        "ops": [{"op": count.kind.name, "ran": count.ran, "wanted": count.wanted} for count in comparison.counts],
        "outputs": _compared(comparison.outputs),
        "losses": _compared(comparison.losses),
        "gradients": [_compared(part) for part in comparison.gradients],
        "weights": [_compared(part) for part in comparison.weights],
        "faults": [
            {"code": fault.code, "op": str(fault.op), "at": fault.at, "message": str(fault)} for fault in proof.faults
        ],
        "lessons": [
            {
                "name": lesson.name,
                "expects": lesson.expects,
                "explains": lesson.explains,
                "text": list(lesson.text),
                "columns": list(lesson.columns),
                "rows": [{"label": row.label, "cells": list(row.cells)} for row in lesson.rows],
            }
            for lesson in found
        ],
    }


def _compared(part: Compared) -> dict[str, Any]:
    """One thing compared; fields that say nothing about it are left out."""
    result: dict[str, Any] = {
        key: value
        for key, value in (("stage", part.stage), ("rank", part.rank), ("update", part.update))
        if value is not None
    }
    result["equal"] = part.equal
    if part.difference is not None:
        where, have, want = part.difference
        result["first_difference"] = {"where": where, "found": number_text(have), "expected": number_text(want)}
        result["largest_error"] = number_text(part.largest_error)
    if part.ulps is not None:
        result["ulps"] = float(part.ulps)
    for key, owners in (
        ("missing", part.missing),
        ("late", part.late),
        ("doubled", part.doubled),
        ("mixed", part.mixed),
    ):
        if owners:
            result[key] = [{"microbatch": microbatch, "step": step} for step, microbatch in owners]
    if part.absent:
        result["absent"] = True
    return result
