"""Costs files: exact numbers, values per stage, sizes, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.costs import values
from pptrace.errors import FormatError
from pptrace.formats.costs_toml import CostsFile, read


def toml(text: str) -> CostsFile:
    return read(text.encode(), source="c.toml")


def test_numbers_are_exact() -> None:
    found = toml('forward = [0.1, "1/3", 2, 1_000.5, 1e-3]\ncomm = 0.7')
    assert found.forward is not None
    assert found.forward.numbers == (Fraction(1, 10), Fraction(1, 3), 2, Fraction(2001, 2), Fraction(1, 1000))
    assert found.forward.per == "stage"
    assert found.comm == (Fraction(7, 10),)
    assert found.num_stages == 5
    assert toml("forward = 2").num_stages is None


def test_every_key() -> None:
    found = toml(
        'forward = 1\nbackward = [2, 3]\nweight_grad = [1, 1]\ncomm = [0.5]\nunit = "us"\nmicrobatch_scale = [1, "1/2"]\n'
        'activation_bytes = "1.5KiB"\nboundary_bytes = [1, "2MB"]\nweight_bytes = 7\ngradient_bytes = 8\noptimizer_bytes = 9'
    )
    assert found.backward == values(2, 3, per="stage")
    assert found.weight_grad == values(1, 1, per="stage")
    assert (found.unit, found.microbatch_scale) == ("us", (1, Fraction(1, 2)))
    assert found.sizes is not None
    assert found.sizes.activation == values(1536, per="op")
    assert found.sizes.boundary == values(1, 2_000_000, per="stage")
    assert (found.sizes.weights, found.sizes.gradients, found.sizes.optimizer) == tuple(
        values(number, per="op") for number in (7, 8, 9)
    )


def test_layers_are_one_total_or_a_number_per_stage() -> None:
    assert (toml("layers = 30").layers, toml("layers = 30").num_stages) == ((30,), None)
    assert (toml("layers = [8, 8, 7, 7]").layers, toml("layers = [8, 8, 7, 7]").num_stages) == ((8, 8, 7, 7), 4)


def test_memory_deltas_are_what_f_i_and_w_add() -> None:
    found = toml('memory_delta = {F = "34MiB", I = "-2MiB", W = "-32MiB"}').sizes
    assert found is not None
    assert found.activation == values(34 * 2**20, per="op")
    assert found.after_input == values(32 * 2**20, per="op")
    per_stage = toml("memory_delta = {F = [943, 1240], I = [-533, -688], W = [-410, -552]}").sizes
    assert per_stage is not None
    assert per_stage.after_input == values(410, 552, per="stage")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("forwrd = 1", "c.toml: unknown key 'forwrd'; did you mean forward?"),
        ("zzz = 1", "c.toml: unknown key 'zzz'; known are forward, backward, weight_grad, comm, "),
        ("forward = 0", "c.toml: forward: a time must be more than zero, got 0"),
        ("backward = [1, 2, -0.5]", "c.toml: backward[2]: a time must be more than zero, got -0.5"),
        ("weight_grad = -1", "c.toml: weight_grad: a time must be zero or more, got -1"),
        ("layers = 0", "c.toml: layers: must be a whole number of layers, at least 1, got 0"),
        ("layers = [8, 7.5]", "c.toml: layers[1]: must be a whole number of layers, at least 1, got 7.5"),
        ("layers = [8, 7]\nforward = [1, 2, 3]", "c.toml: forward has 3 values and layers has 2; give every list one"),
        ("[forward]\na = 1", 'c.toml: forward: must be a number (or a fraction in quotes, "3/2"), got a table'),
        ("forward = true", 'c.toml: forward: must be a number (or a fraction in quotes, "3/2"), got true or false'),
        ("forward = [1, [2]]", 'c.toml: forward[1]: must be a number (or a fraction in quotes, "3/2"), got a list'),
        ("forward = 1979-05-27", 'c.toml: forward: must be a number (or a fraction in quotes, "3/2"), got a date'),
        ("forward = []", "c.toml: forward: the list is empty; give one number, or one per stage"),
        ("forward = inf", "c.toml: forward: 'inf' is not a number; write 1, 1.5 or 3/2"),
        ("forward = [1, nan]", "c.toml: forward[1]: 'nan' is not a number; write 1, 1.5 or 3/2"),
        ('forward = "one"', "c.toml: forward: 'one' is not a number; write 1, 1.5 or 3/2"),
        ("forward = " + "9" * 31, "c.toml: forward: the number is too long; a number has at most 30 digits"),
        ("forward = " + "9" * 5000, "c.toml: a number is too long; a number has at most 30 digits"),
        ("forward = 1e99", "c.toml: forward: '1e99' is too long; a number has at most 30 digits"),
        (
            "forward = [1, 2]\nbackward = [1, 2, 3]",
            "c.toml: backward has 3 values and forward has 2; give every list one value per stage, 2 here",
        ),
        ("unit = 3", "c.toml: unit: must be a text of at most 20 letters"),
        (
            "weight_bytes = -1",
            'c.toml: weight_bytes: must be a size in bytes, 4096 or "1.5GiB", got a number out of range',
        ),
        ('weight_bytes = "big"', "c.toml: weight_bytes: 'big' is not a size; write 4096, 512KiB, 1.5GiB or 2GB"),
        ("memory_delta = 3", "c.toml: memory_delta: must be a table of three, for example {F = 34, I = -2, W = -32}"),
        ("memory_delta = {F = 3, I = -1, W = -1}", "c.toml: memory_delta: F + I + W must be 0, with F >= 0 and W <= 0"),
        (
            "memory_delta = {F=1, I=0, W=-1}\nactivation_bytes = 1",
            "c.toml: memory_delta and activation_bytes say the same",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(FormatError) as refused:
        toml(text)
    assert str(refused.value).startswith(message)


def test_bytes_that_are_not_text_and_lists_without_end() -> None:
    with pytest.raises(FormatError, match=r"^c\.toml: byte 10 is not UTF-8"):
        read(b"forward = \xff", source="c.toml")
    with pytest.raises(FormatError, match="lists in lists without end"):
        toml("forward = " + "[" * 100_000)


@pytest.mark.parametrize("text", ["forward = 1\nforward = 2", "forward = [1", "x" * 100, "forward = 'a", "= 3"])
def test_what_is_not_toml_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(
        FormatError, match=r"^c\.toml: (line \d+, column \d+|end of document): .+; a costs file is TOML"
    ):
        toml(text)
