"""Cases from people who do this job, those that fill-drain and 1f1b orders answer: denominators, few microbatches, unequal
stages, layers and memory. Each is a command line and what must come out of it; those of other schedules are in
test_cases_schedules.py, those about faulty files in tests/check."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import golden_data
import pytest
from click.testing import CliRunner
from running_anywhere import command_output

from pptrace import Placement, Schedule, simulate
from pptrace.cli import main
from pptrace.model import Op

if TYPE_CHECKING:
    from pathlib import Path


def trace(line: str, *more: str) -> dict[str, Any]:
    return json.loads(command_output("trace", *line.split(), *more))


def show(line: str, *more: str) -> str:
    """What `pptrace show` prints, blanks squeezed so that folded lines read on."""
    return " ".join(command_output("show", *line.split(), *more).split())


def metric(found: dict[str, Any], key: str) -> list[Fraction]:
    """The values of a metric, times in units."""
    (made,) = [each for each in found["metrics"] if each["key"] == key]
    unit = found["ticks_per_unit"] if made["unit"] == "time" else 1
    return [Fraction(value["numerator"], value["denominator"] * unit) for value in made["values"]]


def form(found: dict[str, Any], key: str) -> dict[str, Any]:
    """The closed form of a metric, as the trace compares it."""
    return next(each for each in found["closed_forms"] if each["metric"] == key)


def peaks(found: dict[str, Any]) -> list[int]:
    return [peak["held"] for peak in found["memory"]["peaks"]]


class TestDenominatorsAndFormulas:
    def test_the_two_stage_walk_through(self) -> None:
        assert command_output("show", "1f1b", "-P", "2", "-M", "4", "--section", "grid") == (
            "time    |0  1  2  3  4  5  6  7  8  9\n"
            "stage 0 |F0 F1 .  B0 F2 B1 F3 B2 .  B3\n"
            "stage 1 |.  F0 B0 F1 B1 F2 B2 F3 B3 .\n"
        )
        assert metric(trace("1f1b -P 2 -M 4"), "elapsed") == [10]

    def test_1f1b_p4_m8_f1_b2_is_9_of_33_or_9_of_24(self) -> None:
        """Elapsed (8 + 3) x 3; every rank works for 8 x 3 of it."""
        found = trace("1f1b -P 4 -M 8 -b 2")
        assert metric(found, "elapsed") == [33]
        assert metric(found, "bubble_time") == [9, 9, 9, 9]
        ratios = {
            each["key"]: (each["values"], each["denominator"]) for each in found["metrics"] if each["unit"] == "ratio"
        }
        assert ratios["bubble_over_elapsed"] == ([{"numerator": 9, "denominator": 33}], "elapsed")
        assert ratios["bubble_over_ideal"] == ([{"numerator": 9, "denominator": 24}], "ideal")
        shown = show("1f1b -P 4 -M 8 -b 2 --section metrics")
        assert "bubble / elapsed (elapsed idle fraction) 9/33 = 0.273 closed form (P-1)/(M+P-1) = 3/11, agrees" in shown
        assert "bubble / ideal (overhead ratio) 9/24 = 0.375 closed form (P-1)/M = 3/8, agrees" in shown

    @pytest.mark.parametrize(("name", "held"), [("gpipe", [32] * 8), ("1f1b", [8, 7, 6, 5, 4, 3, 2, 1])])
    def test_gpipe_and_1f1b_of_p8_m32_take_the_same_78_and_hold_32_against_8(self, name: str, held: list[int]) -> None:
        """Whoever claims 71 for 1f1b claims less than its lower bound."""
        found = trace(f"{name} -P 8 -M 32")
        assert metric(found, "elapsed") == metric(found, "lower_bound") == [78]
        assert metric(found, "bubble_over_elapsed") == [Fraction(14, 78)]
        assert peaks(found) == held

    def test_larger_microbatches_of_one_global_batch_make_the_bubble_larger(self) -> None:
        """32 samples on 8 ranks in microbatches of 1, 2 and 4: (P-1)/(M+P-1) with M = 32, 16, 8."""
        bubbles = []
        for size, num in ((1, 32), (2, 16), (4, 8)):
            found = trace(f"1f1b -P 8 --global-batch 32 --microbatch-size {size} -f {size} -b {2 * size}")
            assert found["schedule"]["microbatches"] == num
            bubbles += metric(found, "bubble_over_elapsed")
        assert bubbles == [Fraction(7, 39), Fraction(7, 23), Fraction(7, 15)]


class TestFewOddAndManyMicrobatches:
    @pytest.mark.parametrize(
        ("num", "elapsed", "bubble", "held"), [(1, 24, Fraction(7, 8), [1] * 8), (2, 27, Fraction(7, 9), [2] * 7 + [1])]
    )
    def test_1f1b_on_8_ranks_with_one_or_two(self, num: int, elapsed: int, bubble: Fraction, held: list[int]) -> None:
        found = trace(f"1f1b -P 8 -M {num} -f 1 -b 2")
        assert metric(found, "elapsed") == [elapsed]
        assert metric(found, "bubble_over_elapsed") == [bubble]
        assert peaks(found) == held
        assert form(found, "elapsed")["verdict"] == form(found, "peak_activations")["verdict"] == "agrees"

    def test_a_warm_up_that_is_longer_than_there_are_microbatches_is_named(self, tmp_path: Path) -> None:
        """Rank r of 4 warms up with P-1-r forwards although M = 2, and counts its backwards from there."""
        (tmp_path / "few.csv").write_text(
            "0F0,0F1,0F2,0B0,0B1\n1F0,1F1,1B0,1B1\n2F0,2B-1,2F1,2B0,2B1\n3F0,3B0,3F1,3B1\n"
        )
        result = CliRunner().invoke(main, ["check", str(tmp_path / "few.csv")])
        assert result.exit_code == 1
        said = " ".join(result.stdout.split())
        assert "rank 0, position 2 0F2: microbatch 2 is not one of 0..1" in said
        assert "rank 2, position 1 2B-1: microbatch -1 is not one of 0..1" in said

    @pytest.mark.parametrize(("batch", "num"), [(16, 1), (32, 2), (176, 11), (192, 12)])
    def test_p12_with_8_replicas_of_2_samples_needs_a_global_batch_of_192(self, batch: int, num: int) -> None:
        line = f"1f1b -P 12 --data-parallel 8 --microbatch-size 2 --global-batch {batch}"
        assert trace(line)["schedule"]["microbatches"] == num
        said = show(f"{line} --section header")
        assert f"M = global batch / (microbatch size x data parallel) = {batch} / (2 x 8) = {num}" in said
        assert ("M < P = 12: a global batch of 192 is the first with M >= P" in said) == (num < 12)

    def test_1f1b_p2_m1_idles_for_half_of_2_f_plus_b(self) -> None:
        found = trace("1f1b -P 2 -M 1 -f 3/2 -b 2")
        assert metric(found, "elapsed") == [7]
        assert metric(found, "bubble_over_elapsed") == [Fraction(1, 2)]


class TestUnequalStagesAndExposedCommunication:
    @pytest.fixture
    def measured(self, tmp_path: Path) -> str:
        """A costs file of the measured model; the source's B is the backward for the input."""
        source = json.loads(golden_data.text("inputs/profiled_8_stages.json"))
        backward = [half + weights for half, weights in zip(source["T_B"], source["T_W"], strict=True)]
        path = tmp_path / "eight.toml"
        path.write_text(
            f'forward = {source["T_F"]}\nbackward = {backward}\nweight_grad = {source["T_W"]}\nunit = "us"\ncomm = 473\n'
        )
        return str(path)

    def test_a_real_model_without_latency(self, measured: str) -> None:
        found = trace("1f1b -M 32 -c 0", "--costs", measured)
        assert metric(found, "elapsed") == [4171470]
        assert metric(found, "busiest") == [3623744]
        assert metric(found, "balanced") == [2643872]
        shown = show("1f1b -M 32 -c 0 --section idle --section metrics", "--costs", measured)
        assert "(36.62 %) = imbalance 7838976 (23.49 %) + schedule 4381808 (13.13 %)" in shown
        budget = found["idle"]["budget"]
        assert budget["imbalance"] + budget["schedule"] == budget["total"] == 8 * 4171470 - 8 * 2643872

    def test_a_real_model_with_its_latency(self, measured: str) -> None:
        """The file says c = 473; 6622 of elapsed are exposed on 8 ranks."""
        assert metric(trace("1f1b -M 32", "--costs", measured), "elapsed") == [4178092]
        shown = show("1f1b -M 32 --section idle", "--costs", measured)
        assert (
            "(36.72 %) = imbalance 7838976 (23.45 %) + exposed communication 52976 (0.16 %) + schedule 4381808 (13.11 %)"
            in shown
        )

    def test_the_report_says_why_the_closed_form_of_18_percent_does_not_hold(self, measured: str) -> None:
        """7/39 = 17.9 % of elapsed would be idle were the stages equal; 36.6 % are."""
        found = form(trace("1f1b -M 32 -c 0", "--costs", measured), "bubble_over_elapsed")
        assert (found["formula"], found["claimed"]) == ("(P-1)/(M+P-1)", ["7/39"])
        assert found["verdict"] == "does not apply"
        assert found["failing"] == ["equal stages (f from 28850 to 41678)", "equal stages (b from 48133 to 71564)"]
        assert "7/39, does not apply: it needs equal stages (f from 28850 to 41678)" in show(
            "1f1b -M 32 -c 0 --section metrics", "--costs", measured
        )

    def test_1f1b_p8_m32_exposes_68_hops_not_14(self) -> None:
        """2 x (7 + 31 - 4) hops of 466: 31688."""
        line = "1f1b -P 8 -M 32 -f 29850 -b 48635 -w 18868"
        assert metric(trace(line), "elapsed") == [3060915]
        found = trace(f"{line} -c 466")
        assert metric(found, "elapsed") == [3092603]
        assert metric(found, "exposed_comm") == [68 * 466]
        assert form(found, "elapsed")["verdict"] == "agrees"

    def test_70_layers_on_12_ranks_with_an_embedding_and_a_head(self, tmp_path: Path) -> None:
        """BLOOM: 5, ten times 6, and 5 layers. The head takes the time of 1.42 layers; the embedding takes none, and its
        parameters, those of 1.46 layers, are on the first and the last rank."""
        six = ", ".join(["6"] * 10)
        path = tmp_path / "bloom.toml"
        path.write_text(
            f"layers = [5, {six}, 5]\nforward = [5, {six}, 6.42]\nbackward = [10, {', '.join(['12'] * 10)}, 12.84]\n"
            f"weight_bytes = [646, {', '.join(['600'] * 10)}, 646]\n"
        )
        found = trace("1f1b -M 24", "--costs", str(path))
        ideal = metric(found, "ideal")
        assert ideal.index(max(ideal)) == 11
        assert ideal[11] / ideal[1] == Fraction(107, 100)
        held = [Fraction(rank["parts"]["weights"]) / 100 for rank in found["memory"]["bytes"]["ranks"]]
        assert held == [Fraction("6.46"), *[6] * 10, Fraction("6.46")]
        assert "70 layers, per stage 5 6 6 6 6 6 6 6 6 6 6 5" in show(
            "1f1b -M 24 --section header", "--costs", str(path)
        )


class TestLayers:
    def test_30_layers_on_4_ranks_are_8_8_7_7(self) -> None:
        """Elapsed with one microbatch: every layer forward and backward once."""
        found = trace("1f1b -P 4 -M 1 --layers 30 -f 1 -b 2")
        assert found["costs"]["layers"] == [8, 8, 7, 7]
        assert metric(found, "ideal") == [24, 24, 21, 21]
        assert metric(found, "elapsed") == [90]
        shown = show("1f1b -P 4 -M 1 --layers 30 -f 1 -b 2 --section header")
        assert "f=1 b=2 per layer and microbatch c=0" in shown
        assert "30 layers, per stage 8 8 7 7" in shown

    def test_40_layers_on_16_ranks_are_all_placed(self) -> None:
        found = trace("1f1b -P 16 -M 1 --layers 40")
        assert found["costs"]["layers"] == [3] * 8 + [2] * 8
        assert metric(found, "elapsed") == [80]

    def test_layers_are_placed_as_asked(self) -> None:
        assert metric(trace("1f1b -P 4 -M 1 --layers 7,8,8,7"), "ideal") == [14, 16, 16, 14]

    def test_layers_of_chunks(self) -> None:
        """8 stages: 4 4 4 4 4 4 3 3; rank r holds stages r and r+4."""
        found = trace("interleaved -P 4 -M 4 -v 2 --layers 30")
        assert found["costs"]["layers"] == [4] * 6 + [3] * 2
        assert metric(found, "ideal") == [4 * 2 * 8, 4 * 2 * 8, 4 * 2 * 7, 4 * 2 * 7]

    def test_layers_may_stand_in_the_costs_file_and_give_the_ranks(self, tmp_path: Path) -> None:
        path = tmp_path / "costs.toml"
        path.write_text(
            'layers = [1, 2, 2, 3]\nforward = 2\nbackward = 4\nactivation_bytes = "1KiB"\nboundary_bytes = 5'
        )
        found = trace("1f1b -M 1", "--costs", str(path))
        assert metric(found, "ideal") == [6, 12, 12, 18]
        assert found["costs"]["sizes"]["activation"] == {"per": "stage", "values": ["1024", "2048", "2048", "3072"]}
        assert found["costs"]["sizes"]["boundary"]["values"] == ["5"]
        assert metric(trace("1f1b -M 1 --layers 2,2,2,2", "--costs", str(path)), "ideal") == [12, 12, 12, 12]

    def test_a_trace_of_layers_is_timed_again_by_the_layer(self) -> None:
        written = command_output("trace", "1f1b", "-P", "4", "-M", "1", "--layers", "30")
        again = CliRunner().invoke(main, ["trace", "-", "-f", "2"], input=written)
        assert metric(json.loads(again.stdout), "elapsed") == [2 * 30 + 30]
        piped = CliRunner().invoke(main, ["show", "-"], input=written)
        assert piped.stdout == command_output("show", "1f1b", "-P", "4", "-M", "1", "--layers", "30")

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            (
                "-P 4 -M 4 --layers 3",
                "--layers 3: too few for 4 stages, each needs one; lower -P or -v, or raise --layers",
            ),
            (
                "-P 4 -M 4 --layers 8,8,7",
                "--layers has 3 numbers for 4 stages; give the total, or one number per stage",
            ),
            ("-P 4 -M 4 --layers 8,8,0,8", "--layers must be at least 1, got 0"),
            ("-P 4 -M 4 --layers ten", "--layers: 'ten' is not a whole number"),
            ("-P 4 -M 4 --layers 9999999999", "--layers: a number of 10 digits is too large; at most 9 digits"),
            (
                "-P 4 -M 4 --layers 8 --cost-per op",
                "--layers makes -f -b -w the time of one layer, --cost-per op that of one op",
            ),
        ],
    )
    def test_layers_that_cannot_be(self, line: str, wanted: str) -> None:
        result = CliRunner().invoke(main, ["show", "1f1b", *line.split()])
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"error: {wanted}")


class TestMemory:
    def test_1f1b_p4_m8_peaks_at_4_3_2_1_and_p_is_only_a_bound(self) -> None:
        found = trace("1f1b -P 4 -M 8")
        assert peaks(found) == [4, 3, 2, 1]
        assert found["memory"]["bound"] == 4
        assert "bound P = 4 activations on a rank: kept" in show("1f1b -P 4 -M 8 --section metrics")

    def test_a_warm_up_of_one_more_holds_5_4_3_2_for_the_same_22(self) -> None:
        """P-r forwards before the pairs instead of P-1-r: a forward more alive on every rank, and nothing gained."""
        orders = []
        for rank in range(4):
            warmup = 4 - rank
            order = [f"{rank}F{m}" for m in range(warmup)]
            for m in range(8 - warmup):
                order += [f"{rank}F{m + warmup}", f"{rank}B{m}"]
            order += [f"{rank}B{m}" for m in range(8 - warmup, 8)]
            orders.append([Op.parse(text) for text in order])
        report = simulate(Schedule.from_ops("longer warm-up", Placement.loop(4), 8, orders))
        assert [peak.held for peak in report.memory.peaks] == [5, 4, 3, 2]
        assert report.metrics["elapsed"].value.numerator == 22
        assert metric(trace("1f1b -P 4 -M 8"), "elapsed") == [22]

    def test_the_heaviest_stage_counts_never_the_mean(self, tmp_path: Path) -> None:
        """472 bytes a stage and 3160 a layer, layers 1 2 2 3: 9952 on the last, where the mean is 6792."""
        path = tmp_path / "costs.toml"
        path.write_text("layers = [1, 2, 2, 3]\nweight_bytes = [3632, 6792, 6792, 9952]\n")
        found = trace("1f1b -M 4", "--costs", str(path))["memory"]["bytes"]["ranks"]
        assert [rank["held"] for rank in found] == ["3632", "6792", "6792", "9952"]
        given = trace("1f1b -P 4 -M 4 --weight-bytes 3632,6792,6792,9952")["memory"]["bytes"]["ranks"]
        assert [rank["held"] for rank in given] == [rank["held"] for rank in found]
