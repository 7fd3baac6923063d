"""What a schedule is compared with: the unsplit step, the whole batch through all slices, one plain forward, one plain
backward, one update; and, to tell what microbatches do from what a schedule does, the same microbatches one after another.
It shares the layer functions with the executor and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pptrace.proof import layers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pptrace.proof.arithmetic import Matrix
    from pptrace.proof.layers import Parameters
    from pptrace.proof.problem import Problem

Owner = tuple[int, int]
"""(step, microbatch)."""


class Reference(NamedTuple):
    """Outputs and losses by (step, microbatch); `gradients[k][s]` of update k; `weights[k][s]` before update k, and at the
    end after the last; `means[s]`: running batch means, where batch statistics are on."""

    outputs: dict[Owner, Matrix]
    losses: dict[Owner, Matrix]
    gradients: list[list[Parameters]]
    weights: list[list[Parameters]]
    means: list[Matrix | None]


def unsplit(problem: Problem, updates: Sequence[Sequence[Owner]]) -> Reference:
    """Train `problem` without stages or microbatches: every entry of `updates` is one batch and one update."""
    num = problem.arithmetic
    masks = problem.masks()
    weights = list(problem.weights)
    found = Reference({}, {}, [], [weights], [None] * problem.num_stages)
    for owners in updates:
        x, target = problem.batch(owners)
        kept = []
        for stage, slice_weights in enumerate(weights):
            if problem.batch_statistics:
                mean = layers.batch_mean(num, x)
                before = found.means[stage]
                found.means[stage] = mean if before is None else _halfway(problem, before, mean)
            mask = masks.mask(stage, owners) if masks else None
            x, saved = layers.forward(num, slice_weights, x, mask=mask, centred=problem.batch_statistics)
            kept.append(saved)
        row = 0
        for owner in owners:
            rows = problem.samples[owner[1]]
            found.outputs[owner] = x.slice(row, row + rows)
            found.losses[owner] = layers.loss(num, found.outputs[owner], target.slice(row, row + rows))
            row += rows
        gradient = layers.loss_gradient(num, x, target)
        gradients: list[Parameters] = []
        for slice_weights, saved in zip(reversed(weights), reversed(kept), strict=True):
            gradient, of_slice = layers.backward(num, slice_weights, saved, gradient)
            gradients.append(of_slice)
        gradients.reverse()
        weights = [layers.stepped(num, w, g, problem.rate) for w, g in zip(weights, gradients, strict=True)]
        found.gradients.append(gradients)
        found.weights.append(weights)
    return found


def one_by_one(
    problem: Problem, updates: Sequence[Sequence[Owner]], versions: Mapping[tuple[int, Owner], int] | None = None
) -> Reference:
    """Train `problem` without stages: one microbatch after another through all slices, each on its own, its gradient added
    with its share, an update after every entry of `updates`. `versions` gives the weight version that a stage uses for a
    microbatch, by (stage, owner); None means the newest."""
    num = problem.arithmetic
    masks = problem.masks()
    found = Reference({}, {}, [], [list(problem.weights)], [None] * problem.num_stages)
    for update, owners in enumerate(updates):
        totals: list[Parameters] = []
        for owner in owners:
            x, target = problem.batch([owner])
            kept = []
            for stage in range(problem.num_stages):
                if problem.batch_statistics:
                    mean = layers.batch_mean(num, x)
                    before = found.means[stage]
                    found.means[stage] = mean if before is None else _halfway(problem, before, mean)
                version = update if versions is None else versions.get((stage, owner), update)
                weights = found.weights[min(version, update)][stage]
                mask = masks.mask(stage, [owner]) if masks else None
                x, saved = layers.forward(num, weights, x, mask=mask, centred=problem.batch_statistics)
                kept.append((weights, saved))
            found.outputs[owner], found.losses[owner] = x, layers.loss(num, x, target)
            gradient = layers.loss_gradient(num, x, target)
            gradients: list[Parameters] = []
            for weights, saved in reversed(kept):
                gradient, of_slice = layers.backward(num, weights, saved, gradient)
                gradients.append(layers.times(num, of_slice, problem.shares[owner[1]]))
            gradients.reverse()
            totals = [layers.plus(num, a, b) for a, b in zip(totals, gradients, strict=True)] if totals else gradients
        found.gradients.append(totals)
        newest = found.weights[-1]
        found.weights.append([layers.stepped(num, w, g, problem.rate) for w, g in zip(newest, totals, strict=True)])
    return found


def _halfway(problem: Problem, before: Matrix, mean: Matrix) -> Matrix:
    """A running mean with momentum one half."""
    num = problem.arithmetic
    total = num.add(before, mean)
    return num.halved_where(total, [[True] * len(row) for row in total.rows])
