"""Tables and lines of figures: lifetimes, phases, metrics beside closed forms, idle time, many ranks."""

from __future__ import annotations

from fractions import Fraction

import pytest
from pictures import EQUAL, SPLIT, costs, picture, report, section
from test_render_scale import eight_stages

from pptrace.analysis.metrics import Ratio
from pptrace.analysis.report import Report
from pptrace.render.lines import columns, folded, per_rank
from pptrace.render.numbers import decimal, percent, ratio_text, size_text
from pptrace.render.tables import Table, numeric_columns
from pptrace.render.text import report_text
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule


def test_lifetimes_by_stage_and_microbatch():
    # F starts at m on stage 0 and B ends at 8, 10, 12, 14; the last stage keeps each for the time of F and B.
    assert section(report("1f1b", 4, 4), "lifetimes") == picture("""
        lifetimes, activation: F start - B end
        microbatch  0    1     2     3
        stage 0     0-8  1-10  2-12  3-14
        stage 1     1-7  2-9   3-11  7-13
        stage 2     2-6  3-8   6-10  8-12
        stage 3     3-5  5-7   7-9   9-11
    """)


def test_lifetimes_of_a_split_backward_name_the_end_of_i_too():
    # stage 0 F0 F1 . I0 W0 I1 W1, stage 1 . F0 I0 F1 I1 W0 W1
    assert section(report("zb-h1", 2, 2, SPLIT), "lifetimes") == picture("""
        lifetimes, activation: F start - I end - W end
        microbatch  0      1
        stage 0     0-4-5  1-6-7
        stage 1     1-3-6  3-5-7
    """)


def test_lifetimes_are_cut_to_the_width_with_their_stages_repeated():
    assert section(report("gpipe", 1, 3), "lifetimes", width=21) == picture("""
        lifetimes,
          activation: F start
          - B end
        microbatch  0    1
        stage 0     0-4  1-5

        microbatch  2
        stage 0     2-6
    """)


def test_many_lifetimes_are_printed_where_they_are_asked_for():
    found = report("1f1b", 4, 64)
    assert "256 of them: --section lifetimes prints them" in report_text(found)
    assert len(section(found, "lifetimes").splitlines()) == 6


def test_phases_of_four_stages():
    assert section(report("1f1b", 4, 4), "phases") == picture("""
        phases, in ops
                 warm-up  steady  cooldown  first backward at  last forward ends at
        stage 0        4       0         4                  7                     4
        stage 1        3       2         3                  6                     8
        stage 2        2       4         2                  5                     9
        stage 3        1       6         1                  4                    10
        pipeline: warm-up until t=4 (the last stage's first backward), drain from t=10 (the end of its last forward)
    """)


def report_of_order(name, ranks, microbatches, **params):
    """Schedules that bring their own updates."""
    return Report(simulate_schedule(build(name, Params(ranks, microbatches, **params)), EQUAL))


def metric_lines(found, **options):
    """Label to the lines of each metric."""
    lines: dict[str, list[str]] = {}
    label = ""
    for line in section(found, "metrics", **options).splitlines():
        if not line.startswith(" "):
            label = line.partition("   ")[0]
        lines.setdefault(label, []).append(line)
    return lines


def test_a_number_stands_with_its_closed_form_and_its_definition():
    lines = metric_lines(report("1f1b", 4, 4))["bubble / elapsed (elapsed idle fraction)"]
    assert lines[0] == (
        "bubble / elapsed (elapsed idle fraction)   6/14 = 0.429     closed form (P-1)/(M+P-1) = 3/7, agrees"
    )
    assert lines[1].strip() == "idle / (ranks x elapsed); denominator: elapsed"


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("elapsed", "14"),
        ("ideal", "8 on every rank"),
        ("bubble time", "6 on every rank"),
        ("bubble / ideal (overhead ratio)", "6/8 = 0.750"),
        ("modelled compute utilization", "8/14 = 0.571"),
        ("internal idle", "6 4 2 0"),
        ("peak activations", "4 3 2 1"),
        ("throughput", "4/14 = 0.286"),
    ],
)
def test_the_figures_of_four_stages(label, value):
    line = metric_lines(report("1f1b", 4, 4))[label][0]
    assert line[:43] == f"{label:<43}"
    assert line[43:60].rstrip() == value


def test_the_bound_of_p_stands_beside_the_peaks():
    kept = " ".join(metric_lines(report("1f1b", 4, 4))["peak activations"])
    assert "bound P = 4 activations on a rank: kept" in kept
    passed = " ".join(metric_lines(report("gpipe", 4, 6))["peak activations"])
    assert "bound P = 4 activations on a rank: passed, 6 are held" in passed


def test_a_closed_form_that_does_not_hold_names_what_fails():
    cost = costs("1", 2)._replace(forward=costs(1, 2).forward._replace(numbers=tuple(map(Fraction, (1, 1, 1, 3)))))
    text = " ".join(section(report("1f1b", 4, 8, cost), "metrics").split())
    assert "closed form (P-1)/(M+P-1) = 3/11, does not apply: it needs equal stages (f from 1 to 3)" in text


def test_ratios_of_halves_are_written_in_units_of_time():
    # (2+1)(1 + 3/2) = 7.5, of which 5 are work.
    assert "2.5/7.5 = 0.333" in section(report("1f1b", 2, 2, costs(1, Fraction(3, 2))), "metrics")


def test_below_a_narrow_width_remarks_stand_under_their_value():
    lines = metric_lines(report("1f1b", 4, 4), width=80)["elapsed"]
    assert lines[0].split() == ["elapsed", "14"]
    assert lines[1].startswith("    closed form (M+P-1)*(f+b)")
    assert all(len(line) <= 80 for line in section(report("1f1b", 4, 4), "metrics", width=80).splitlines())


def test_idle_time_by_cause_adds_up():
    assert section(report("1f1b", 4, 4), "idle") == picture("""
        idle time by cause
                 fill  drain  wait-backward  all
        stage 0     0      0              6    6
        stage 1     1      1              4    6
        stage 2     2      2              2    6
        stage 3     3      3              0    6
        fill: before the rank's first op; drain: after the rank's last op; wait-backward: the backward of the stage
          after is not done
        idle of all ranks 24 of 56 (42.86 %) = schedule 24 (42.86 %)
    """)


def test_without_a_flush_the_versions_of_the_weights_are_shown():
    # stage 0 runs F0 F1 B0 F2 B1 B2: F2 comes after one update; stage 1 updates after every microbatch.
    found = report_of_order("pipedream", 2, 3)
    assert section(found, "versions") == picture("""
        weight version that F and B of a microbatch use
        microbatch  0  1  2
        stage 0     0  0  1
        stage 1     0  1  2

        weight versions kept
                 most  from t  staleness
        stage 0     2       4          1
        stage 1     1       0          0
        staleness: updates between the version that a microbatch uses and the weights its gradient is added to, at
          most
    """)
    assert "weight versions kept" in report_text(found)
    assert "weight version that" not in report_text(report("1f1b", 2, 3))


def test_steps_that_run_into_one_another_are_told_apart():
    found = report_of_order("pipedream", 1, 1, num_steps=2)
    assert section(found, "grid") == picture("""
        time    |0    1    2    3
        stage 0 |F0   B0   F0@1 B0@1
    """)
    assert "@1 is in optimizer step 1" in section(found, "legend")


def test_the_measured_pipeline_s_idle_budget():
    text = " ".join(section(eight_stages(), "idle").split())
    assert "(36.62 %) = imbalance 7838976 (23.49 %) + schedule" in text
    assert "(13.13 %)" in text
    text = " ".join(section(eight_stages(473), "idle").split())
    assert "(36.72 %)" in text
    for share in ("(23.45 %)", "(0.16 %)", "(13.11 %)"):
        assert share in text


def test_values_of_many_ranks_are_wrapped_in_numbered_lines():
    lines = per_rank([str(64 - rank) for rank in range(64)])
    assert lines[0] == "ranks  0-15: " + " ".join(str(64 - rank) for rank in range(16))
    assert lines[3] == "ranks 48-63: 16 15 14 13 12 11 10  9  8  7  6  5  4  3  2  1"
    assert per_rank(["8"] * 64) == ["8 on every rank"]
    assert per_rank(["4", "3"]) == ["4 3"]
    assert per_rank(["4"]) == ["4"]


def test_prose_is_folded_at_blanks_and_never_without_a_width():
    assert folded("one two three", None) == ["one two three"]
    assert folded("one two three", 8) == ["one two", "  three"]
    assert folded("unbreakable-word", 5) == ["unbreakable-word"]


def test_columns_are_aligned():
    assert columns([("", "a"), ("row", "100")]) == ["       a", "row  100"]


def test_decimals_are_exact_and_small_ones_keep_three_digits():
    assert decimal(Fraction(6, 14)) == "0.429"
    assert decimal(Fraction(1, 2000)) == "0.000500"
    assert decimal(Fraction(5, 10000), 3) == "0.000500"
    assert decimal(Fraction(0)) == "0.000"
    assert decimal(Fraction(-1, 3)) == "-0.333"
    assert decimal(Fraction(19999, 10000)) == "2.000"
    assert percent(24, 56) == "42.86 %"
    assert percent(0, 0) == "0 %"


def test_sizes_are_exact_and_readable():
    assert size_text(Fraction(512)) == "512"
    assert size_text(Fraction(3 * 2**30)) == "3 GiB"
    assert size_text(Fraction(2500)) == "2500 (2.44 KiB)"


def test_ratios_of_times_that_are_no_decimals_are_in_units_of_time_too():
    # P2 M1 f = 1/3, b = 1: elapsed 8/3, of which each rank idles 4/3
    shown = section(report("1f1b", 2, 1, costs(Fraction(1, 3), 1)), "metrics")
    assert "(4/3)/(8/3) = 0.500" in shown
    assert "1/(8/3) = 0.375" in shown
    assert ratio_text(Ratio(1, 4), 2) == "0.5/2 = 0.250"


def test_columns_of_numbers_stand_to_the_right():
    rows = (
        ("a", "6/14 = 0.429", "0F0 0-1", "4 3 2 1", "-", "0.5 x", "(65/3)/100", "3-17-18", "agrees", ""),
        ("b", "1", "0F1 1-2", "8", "0.75", "1 x", "1/2", "", "1", "2"),
    )
    table = Table("numbers", tuple("abcdefghij"), rows)
    assert numeric_columns(table) == [False, True, False, True, True, True, True, True, False, True]
    assert numeric_columns(table._replace(rows=(("1", *["9" * 40] * 9),))) == [False] * 10
