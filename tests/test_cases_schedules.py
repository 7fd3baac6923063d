"""Cases from people who do this job that name interleaved, zero-bubble, folded, two-way or asynchronous schedules, split
backwards or recomputation: what `pptrace show` prints, and what its JSON says."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

import golden_data
import pytest
from click.testing import CliRunner, Result

from pptrace.cli import main


def run(command: str, line: str) -> Result:
    result = CliRunner().invoke(main, [command, *line.split()])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def show(line: str) -> str:
    """What `pptrace show` prints, blanks squeezed so that folded lines read on."""
    result = run("show", line)
    assert (result.exit_code, result.stderr) == (0, "")
    return " ".join(result.stdout.split())


def refused(line: str, code: int) -> str:
    result = run("show", line)
    assert (result.exit_code, result.stdout) == (code, "")
    return result.stderr.removeprefix("error: ").rstrip("\n")


def trace(line: str) -> dict[str, Any]:
    result = run("trace", line)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def metric(found: dict[str, Any], key: str) -> list[Fraction]:
    """The values of a metric, times in units."""
    (made,) = [each for each in found["metrics"] if each["key"] == key]
    unit = found["ticks_per_unit"] if made["unit"] == "time" else 1
    return [Fraction(value["numerator"], value["denominator"] * unit) for value in made["values"]]


def form(found: dict[str, Any], key: str, number: int = 0) -> tuple[list[Fraction], str, list[str]]:
    """(what a closed form of the metric gives, its verdict, the conditions that fail)."""
    made = [each for each in found["closed_forms"] if each["metric"] == key][number]
    return [Fraction(text) for text in made["claimed"]], made["verdict"], made["failing"]


class TestDenominators:
    def test_zb_h1_beside_1f1b_p4_m8_f1_b2(self) -> None:
        text = show("zb-h1 -P 4 -M 8 -f 1 -b 2 --section metrics")
        assert "elapsed 27 " in text
        assert "bubble / elapsed (elapsed idle fraction) 3/27 = 0.111" in text
        assert "bubble / ideal (overhead ratio) 3/24 = 0.125" in text
        text = show("1f1b -P 4 -M 8 -f 1 -b 2 --section metrics")
        assert "9/33 = 0.273" in text
        assert "9/24 = 0.375" in text

    def test_interleaved_p4_v2_m4_in_op_units(self) -> None:
        text = show("interleaved -P 4 -v 2 -M 4 --cost-per op --section metrics")
        assert "elapsed 22 " in text
        assert "bubble time 6 on every rank" in text
        assert "6/22 = 0.273" in text
        assert "6/16 = 0.375" in text

    def test_interleaved_with_fewer_microbatches_than_ranks(self) -> None:
        """M < P: the published forms give an elapsed time of 18 and a bubble of 3/9; both say what they need."""
        found = trace("interleaved -P 4 -v 2 -M 3 --cost-per op")
        assert metric(found, "elapsed") == metric(found, "lower_bound") == [20]
        assert form(found, "elapsed") == ([20], "agrees", [])
        assert form(found, "elapsed", 1) == ([18], "does not apply", ["M >= P"])
        assert form(found, "bubble_over_elapsed") == ([Fraction(3, 9)], "does not apply", ["M >= P"])
        assert form(found, "bubble_over_ideal") == ([Fraction(3, 6)], "does not apply", ["M >= P"])
        assert "= 18, does not apply: it needs M >= P" in show(
            "interleaved -P 4 -v 2 -M 3 --cost-per op --section metrics"
        )

    def test_zb_h1_p8_m16_has_a_bubble_of_7_by_both_ways_of_writing_it(self) -> None:
        """(P-1)(f+i-w) with the paper's B = i = 1; (P-1)(F+B-2W) with a full B = 2."""
        found = trace("zb-h1 -P 8 -M 16 -f 1 -b 2 -w 1")
        assert metric(found, "bubble_time") == [7] * 8
        assert form(found, "bubble_time") == ([7] * 8, "agrees", [])
        assert (8 - 1) * (1 + 1 - 1) == (8 - 1) * (1 + 2 - 2 * 1) == 7

    def test_zb_h2_has_no_bubble_by_the_span_rate_and_3_of_27_behind_a_barrier(self) -> None:
        text = show("zb-h2 -P 4 -M 8 -f 1 -b 2 -w 1 --section metrics")
        assert "elapsed 27 " in text
        assert "ideal 24 on every rank" in text
        assert "internal idle 0 on every rank" in text  # so every rank's span is 24
        assert "longest rank span 24 closed form M*(f+b) + max(0, (P-1)*(f+i-2w)) = 24, agrees" in text
        assert "span bubble rate 0/24 = 0.000" in text
        assert "3/27 = 0.111" in text

    def test_zb_h2_with_a_step_of_each_stage_pays_the_fill_once(self) -> None:
        """Two steps: 24 + 24 + 3 where every stage steps alone, 27 + 27 behind a barrier."""
        assert metric(trace("zb-h2 -P 4 -M 8 --steps 2 --optimizer per-stage"), "elapsed") == [51]
        assert metric(trace("zb-h2 -P 4 -M 8 --steps 2"), "elapsed") == [54]

    def test_gpipe_with_its_backwards_split_is_not_zb_h1(self) -> None:
        split = trace("gpipe -P 8 -M 16 --split-backward")
        assert metric(split, "elapsed") == [62]
        assert metric(split, "bubble_time") == [14] * 8
        assert metric(split, "peak_activations") == [16] * 8
        paper = trace("zb-h1 -P 8 -M 16")
        assert metric(paper, "elapsed") == [55]
        assert metric(paper, "bubble_time") == [7] * 8
        assert metric(paper, "peak_activations") == [8] * 8
        named = form(split, "elapsed")
        assert named == ([69], "does not apply", ["full backwards (here --split-backward)"])


class TestFewOddAndManyMicrobatches:
    def test_m10_in_groups_of_5(self) -> None:
        found = trace("interleaved -P 4 -v 2 -M 10 --cost-per op")
        assert found["schedule"]["options"] == {"group": 5}
        assert (metric(found, "elapsed"), metric(found, "bubble_time")) == ([46], [6] * 4)
        assert "advice" not in found

    def test_m10_in_groups_of_4_is_told_what_groups_of_5_save(self) -> None:
        line = "interleaved -P 4 -v 2 -M 10 --group 4 --cost-per op"
        found = trace(line)
        assert (metric(found, "elapsed"), metric(found, "bubble_time")) == ([52], [12] * 4)
        assert found["advice"] == "groups of 5 save 6: leave --group out"
        assert "advice: groups of 5 save 6: leave --group out" in show(line + " --section header")
        assert form(found, "elapsed") == (
            [46],
            "does not apply",
            ["v = 1, or groups of g >= P with M mod g = 0 or >= P"],
        )

    def test_p6_m3_is_one_group_of_3(self) -> None:
        found = trace("interleaved -P 6 -v 2 -M 3 --cost-per op")
        assert found["schedule"]["options"] == {"group": 3}
        assert metric(found, "elapsed") == [28]

    def test_groups_of_6_need_6_microbatches(self) -> None:
        assert refused("interleaved -P 6 -v 2 -M 3 --group 6", 2) == (
            "interleaved with --group 6 needs M >= 6, got M = 3; leave --group out, or raise M (Megatron-LM refuses M < P)"
        )

    @pytest.mark.parametrize("command", ["show", "trace"])
    def test_p4_m5_v3_in_groups_of_4_is_a_deadlock_with_its_cycle_and_its_remedy(self, command: str) -> None:
        result = run(command, "interleaved -P 4 -M 5 -v 3 --group 4")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "error: deadlock: rank 0: 8F4 waits for 7F4 of rank 3; rank 3: 7B0 waits for 8B0 of rank 0; "
            "leave --group out (groups of 5 never deadlock)\n"
        )


class TestMemory:
    def test_interleaved_p4_v2_m8_in_chunks_and_in_whole_ranks(self) -> None:
        text = show("interleaved -P 4 -v 2 -M 8 --section metrics")
        assert "peak chunk activations 11 9 7 5" in text
        assert "peak rank activations 5.5 4.5 3.5 2.5" in text

    @pytest.mark.parametrize("num", [4, 8, 13])
    def test_zb_h1_bytes(self, num: int) -> None:
        """Rank r: (P-r)*M_B + r*M_W; M_B = 34, M_W = 32 (in sbh of a layer of a transformer without attention scores)."""
        wanted = [4 * 34, 3 * 34 + 32, 2 * 34 + 2 * 32, 34 + 3 * 32]
        found = trace(f"zb-h1 -P 4 -M {num} --activation-bytes 34 --after-input-bytes 32")
        assert metric(found, "peak_activation_bytes") == wanted
        assert form(found, "peak_activation_bytes") == (wanted, "agrees", [])

    def test_zb_h1_bytes_of_fewer_microbatches_are_less_and_say_so(self) -> None:
        found = trace("zb-h1 -P 4 -M 2 --activation-bytes 34 --after-input-bytes 32")
        assert metric(found, "peak_activation_bytes")[0] == 2 * 34
        assert form(found, "peak_activation_bytes")[1:] == ("does not apply", ["M >= P"])

    def test_zb_h1_recomputed_turns_the_memory_order_round(self) -> None:
        """R start to W end: 1 2 3 4; waiting between I end and W start: 0 1 2 3."""
        found = trace("zb-h1 -P 4 -M 8 --recompute full")
        assert metric(found, "peak_activations") == [1, 2, 3, 4]
        starts = {event["id"]: event["start"] for event in found["events"]}
        waits: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(4)}
        for life in found["lifetimes"]:
            if life["kind"] == "activation":
                waits[life["rank"]] += [(life["shrinks"], 1), (starts[life["released_by"]], -1)]
        assert [_most(waits[rank]) for rank in range(4)] == [0, 1, 2, 3]

    def test_zb_h1_recomputed_holds_inputs_beside(self) -> None:
        text = show("zb-h1 -P 4 -M 8 --recompute full --section held --section lifetimes")
        assert "inputs held for recomputation" in text
        assert "lifetimes, activation: R start - I end - W end" in text
        assert "lifetimes, input kept for recomputation: F start - end of B or I" in text

    def test_1f1b_recomputed(self) -> None:
        plain = trace("1f1b -P 8 -M 32 -f 1 -b 2")
        full = trace("1f1b -P 8 -M 32 -f 1 -b 2 --recompute full")
        early = trace("1f1b -P 8 -M 32 -f 1 -b 2 --recompute early")
        assert [metric(each, "elapsed") for each in (plain, full, early)] == [[117], [156], [149]]
        assert [metric(each, "bubble_time")[0] for each in (plain, full, early)] == [21, 28, 21]
        assert metric(plain, "bubble_over_elapsed") == metric(full, "bubble_over_elapsed") == [Fraction(7, 39)]


def _most(changes: list[tuple[int, int]]) -> int:
    held = most = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return most


class TestWeightVersions:
    def test_pipedream_stashes_p_minus_r(self) -> None:
        found = trace("pipedream -P 4 -M 8")
        assert [(stash["rank"], stash["peak"]) for stash in found["versions"]["stashes"]] == [
            (r, 4 - r) for r in range(4)
        ]
        assert found["versions"]["staleness"] == [3, 2, 1, 0]

    def test_pipedream_f_and_b_of_a_microbatch_use_the_same_version(self) -> None:
        used: dict[tuple[int, int], set[int]] = {}
        for event in trace("pipedream -P 4 -M 8")["events"]:
            if event["op"] in ("F", "B"):
                used.setdefault((event["stage"], event["microbatch"]), set()).add(event["version"])
        assert len(used) == 32
        assert {len(versions) for versions in used.values()} == {1}

    def test_pipedream_versions_are_shown_per_rank_over_time(self) -> None:
        text = show("pipedream -P 4 -M 8 --section held --section versions")
        assert "weight versions kept peak stage 0 |1 1 1 1 1 1 1 1 2 2 3 3 4 4" in text
        assert "microbatch 0 1 2 3 4 5 6 7 stage 0 0 0 0 0 1 2 3 4 stage 1 0 0 0 1 2 3 4 5" in text
        assert "most from t staleness stage 0 4 12 3 stage 1 3 9 2 stage 2 2 6 1 stage 3 1 0 0" in text

    @pytest.mark.parametrize("rank", range(4))
    def test_2bw_p4_with_an_update_every_4(self, rank: int) -> None:
        events = trace("pipedream-2bw -P 4 -M 4 --steps 3")["events"]
        for kind in ("F", "B"):
            ops = [event for event in events if (event["op"], event["rank"]) == (kind, rank)]
            ops.sort(key=lambda event: (event["step"], event["microbatch"]))
            assert [event["version"] for event in ops] == [max((k - 1) // 4 - 1, 0) for k in range(1, 13)]
            assert [event["version"] for event in ops] == [0] * 8 + [1] * 4

    def test_1f1b_flushes_one_version_and_no_f_before_step(self) -> None:
        found = trace("1f1b -P 4 -M 4 --steps 2 --reduce 1 --step-time 2")
        for rank in range(4):
            events = [event for event in found["events"] if event["rank"] == rank]
            (updated,) = [event["end"] for event in events if event["op"] == "STEP" and event["step"] == 0]
            assert min(event["start"] for event in events if event["step"] == 1) >= updated
        assert "versions" not in found
        text = show("1f1b -P 4 -M 4 --steps 2 --section versions")
        assert "stage 0 0 0 0 0 1 1 1 1" in text
        assert "stage 0 1 0 0 stage 1 1 0 0 stage 2 1 0 0 stage 3 1 0 0" in text

    def test_the_flush_is_seen_in_the_grid(self) -> None:
        result = run("show", "1f1b -P 2 -M 2 --steps 2 --section legend --section grid")
        assert "| end of an optimizer step" in result.stdout
        assert "stage 0 |F0 F1 .  B0 .  B1|F0 F1 .  B0 .  B1\n" in result.stdout
        assert "stage 1 |.  F0 B0 F1 B1 . |.  F0 B0 F1 B1 .\n" in result.stdout

    def test_an_update_that_takes_time_is_seen_in_the_grid(self) -> None:
        result = run("show", "1f1b -P 2 -M 1 --steps 2 --reduce 1 --step-time 1 --section legend --section grid")
        assert "G gradient reduction (REDUCE)   S optimizer step (STEP)" in result.stdout
        assert "stage 0 |F0 .  .  B0 G  S |F0 .  .  B0 G  S\n" in result.stdout
        assert "stage 1 |.  F0 B0 G  .  S |.  F0 B0 G  .  S\n" in result.stdout

    @pytest.mark.parametrize(
        ("name", "other"), [("1f1b", "pipedream"), ("pipedream", "1f1b"), ("pipedream-2bw", "1f1b")]
    )
    def test_the_header_says_what_it_is_not(self, name: str, other: str) -> None:
        assert f"not {other}, which " in show(f"{name} -P 4 -M 4 --section header")


class TestClosedFormsThatFail:
    """One of each kind; the traced figure is shown, and the condition that fails is named."""

    @pytest.mark.parametrize(
        ("line", "traced", "claimed", "failing"),
        [
            ("interleaved -P 4 -v 2 -M 3 --cost-per op", "20", "18", "M >= P"),
            ("looped-bfs -P 4 -v 2 -M 3 --cost-per op", "20", "18", "M >= P"),
            (
                "interleaved -P 4 -v 2 -M 10 --group 4 --cost-per op",
                "52",
                "46",
                "v = 1, or groups of g >= P with M mod g = 0 or >= P",
            ),
            # Rank 1: F0 1-2, I0 2-2.5, F1 2.5-3.5, I1 -4, W0 -5.5, W1 -7.
            ("zb-h1 -P 2 -M 2 -f 1 -b 2 -w 3/2", "7", "6", "w <= min(f,i)"),
            # The golden table has 27 and 19 for these.
            ("zb-v -P 4 -M 8 -f 1 -b 2 -w 1/2", "27", "25.5", "f = i = w"),
            ("dualpipev -P 4 -M 8 -f 1 -b 1 -w 1/2", "19", "18.25", "f = i"),
            # c > 0: the golden figures of P4 M8 f1 b2 with c = 1.
            ("zb-h1 -P 4 -M 8 -f 1 -b 2 -w 1 -c 1", "41", "27", "c = 0"),
            ("looped-bfs -P 4 -M 8 -v 2 -f 1 -b 2 -c 1", "36.5", "28.5", "c = 0"),
            (
                "interleaved -P 4 -M 8 -v 2 -f 1 -b 2 -c 1",
                "46",
                "42.5",
                "c = 0, or c <= min(f,b)/v and M mod P = 0 in groups of P",
            ),
        ],
    )
    def test_elapsed(self, line: str, traced: str, claimed: str, failing: str) -> None:
        text = show(line + " --section metrics")
        assert text.startswith(f"elapsed {traced} closed form ")
        assert f" = {claimed}, does not apply: it needs {failing} " in text.partition("ideal ")[0]

    def test_several_conditions_are_all_named(self) -> None:
        text = show("zb-v -P 4 -M 3 -f 1 -b 3 -w 1 -c 1 --section metrics")
        assert "does not apply: it needs M >= 2P-1, f = i = w, c = 0" in text

    def test_zb_h2_with_few_microbatches_is_worse_than_zb_h1(self) -> None:
        """P4 M3: 14 and a longest span of 13, against 13."""
        text = show("zb-h2 -P 4 -M 3 --section metrics")
        assert text.startswith("elapsed 14 ")
        assert "longest rank span 13 closed form" in text
        assert "= 9, does not apply: it needs M >= 2P-1" in text
        assert show("zb-h1 -P 4 -M 3 --section metrics").startswith(
            "elapsed 13 closed form (M+P-1)*(f+i) + w = 13, agrees"
        )

    def test_stages_that_are_not_equal(self) -> None:
        text = show("zb-h1 -P 2 -M 4 -f 1,2 -b 2,4 -w 1,2 --section metrics")
        assert "does not apply: it needs equal stages (f from 1 to 2)" in text


class TestDefaultCosts:
    """f=1 b=1; b=2 w=1 where the schedule of the command splits its backward or overlaps."""

    @pytest.mark.parametrize(
        ("line", "costs"),
        [
            ("gpipe -P 4 -M 8", "f=1 b=1 per"),
            ("interleaved -P 4 -M 8", "f=1 b=1 per"),
            ("wave -P 4 -M 8", "f=1 b=1 per"),
            ("chimera -P 4 -M 8", "f=1 b=1 per"),
            ("pipedream -P 4 -M 8", "f=1 b=1 per"),
            ("gpipe -P 4 -M 8 --split-backward", "f=1 b=2 w=1 per"),
            ("gpipe -P 4 -M 8 --recompute full", "f=1 b=1 per"),
            ("zb-h1 -P 4 -M 8", "f=1 b=2 w=1 per"),
            ("interleaved-zb -P 4 -M 8", "f=1 b=2 w=1 per"),
            ("v-half -P 4 -M 8", "f=1 b=2 w=1 per"),
            ("dualpipe -P 4 -M 8", "f=1 b=2 w=1 per"),
            ("dualpipev -P 4 -M 8", "f=1 b=2 w=1 per"),
            ("zb-h1 -P 4 -M 8 -b 3", "f=1 b=3 w=1.5 per"),
        ],
    )
    def test_the_header_says_them(self, line: str, costs: str) -> None:
        assert f" {costs} microbatch and rank c=0" in show(line + " --section header")


GOLDEN_FIGURES = {
    "gpipe": (33, 39),
    "1f1b": (33, 49),
    "eager-1f1b": (33, None),
    "interleaved": ("28.5", 46),
    "looped-bfs": ("28.5", "36.5"),
    "zb-h1": (27, 41),
    "zb-h2": (27, 30),
    "zb-v": ("25.5", None),
    "v-half": ("26.5", None),
    "v-min": ("29.5", None),
    "dualpipev": (27, None),
}


class TestGoldenFigures:
    """P4 M8, f=1, b=2, w=1, with c = 0 and c = 1, v = 2 where there are chunks."""

    @pytest.mark.parametrize("name", GOLDEN_FIGURES)
    def test_elapsed(self, name: str) -> None:
        for latency, wanted in enumerate(GOLDEN_FIGURES[name]):
            if wanted is not None:
                found = trace(f"{name} -P 4 -M 8 -f 1 -b 2 -w 1 -c {latency}")
                assert metric(found, "elapsed") == [Fraction(wanted)]

    @pytest.mark.parametrize("name", ["zb-h2", "zb-v"])
    def test_the_longest_span_is_24(self, name: str) -> None:
        assert metric(trace(f"{name} -P 4 -M 8"), "longest_span") == [24]

    def test_readme_of_the_goldens_says_these_figures(self) -> None:
        """The table above, read again from where it was copied."""
        text = " ".join(golden_data.text("goldens/README.md").split())
        row = text.partition("Golden figures to know by heart:")[2]
        for name, (plain, _) in GOLDEN_FIGURES.items():
            assert re.search(rf"{name}(?: v=2)? {re.escape(str(plain))}\b", row), name
