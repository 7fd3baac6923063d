"""The strip of what is held. Counts are worked out by hand: one more at every F start, one less at every release."""

from __future__ import annotations

from fractions import Fraction

from pictures import SPLIT, costs, picture, report, report_of, section

from pptrace.schedules.registry import Params, build
from pptrace.schedules.transforms import recompute


def test_one_f_one_b_of_four_stages_holds_4_3_2_1():
    assert section(report("1f1b", 4, 4), "held") == picture("""
        activations held                                     peak
        stage 0 |1  2  3  4  4  4  4  4  3  3  2  2  1  1      4 from t=3
        stage 1 |0  1  2  3  3  3  3  3  3  2  2  1  1  0      3 from t=3
        stage 2 |0  0  1  2  2  2  2  2  2  2  1  1  0  0      2 from t=3
        stage 3 |0  0  0  1  1  1  1  1  1  1  1  0  0  0      1 from t=3
    """)


def test_gpipe_holds_all_microbatches_on_every_stage():
    lines = section(report("gpipe", 4, 4), "held").splitlines()
    assert lines[1].endswith("4 from t=3")
    assert lines[4] == "stage 3 |0  0  0  1  2  3  4  4  3  2  1  0  0  0      4 from t=6"


def test_a_split_backward_holds_until_its_weights_are_done():
    # stage 1 runs . F0 I0 F1 I1 W0 W1: nothing is let go before t=6.
    assert section(report("zb-h1", 2, 2, SPLIT), "held").splitlines()[2] == (
        "stage 1 |0  1  1  2  2  2  1      2 from t=3"
    )


def test_recomputed_activations_and_the_inputs_kept_for_them():
    # stage 0: F0 0-1, then R0 with its B0 once stage 1 is done at t=4 (F0 R0 B0 = 1-2, 2-3, 3-4).
    found = report_of(recompute(build("1f1b", Params(2, 1))))
    assert section(found, "held") == picture("""
        activations held             peak
        stage 0 |0  0  0  0  1  1      1 from t=4
        stage 1 |0  0  1  1  0  0      1 from t=2

        inputs held for recomputation
                                     peak
        stage 0 |1  1  1  1  1  1      1 from t=0
        stage 1 |0  1  1  1  0  0      1 from t=1
    """)


def test_in_panels_the_peaks_stand_beside_the_last_one_where_they_fit():
    assert section(report("1f1b", 2, 4), "held", width=32) == picture("""
        activations held
        stage 0 |1  2  2  2  2  2  2  2
        stage 1 |0  1  1  1  1  1  1  1

                         peak
        stage 0 |1  1      2 from t=1
        stage 1 |1  0      1 from t=1
    """)


def test_in_panels_the_peaks_stand_below_where_they_do_not_fit():
    lines = section(report("1f1b", 2, 4), "held", width=40).splitlines()
    assert lines[-3:] == ["peak", "stage 0  2 from t=1", "stage 1  1 from t=1"]


def test_counts_of_narrow_columns_are_written_where_they_change():
    # Thirds: one character a column, a count takes two, so it stands where it begins.
    found = report("1f1b", 2, 1, costs(1, 2, c=Fraction(1, 3)))
    assert section(found, "held").splitlines()[1:] == [
        "stage 0 |1                       1 from t=0",
        "stage 1 |0   1        0          1 from t=4/3",
    ]


def test_counts_over_nine_are_letters_in_a_compact_picture():
    text = section(report("gpipe", 1, 12), "held", compact=True)
    assert text.startswith("activations held (a = 10, b = 11, ...")
    assert text.splitlines()[2].startswith("stage 0 |123456789abccba987654321")


def test_weight_versions_are_a_strip_of_their_own_where_there_is_no_flush():
    # Stage 0 runs F0 F1 . B0 F2 B1 . B2: the update at 4 joins what B1 needs until 6, that at 6 what B2 needs until 8.
    assert section(report_of(build("pipedream", Params(2, 3))), "held") == picture("""
        activations held                   peak
        stage 0 |1  2  2  2  2  2  1  1      2 from t=1
        stage 1 |0  1  1  1  1  1  1  0      1 from t=1

        weight versions kept               peak
        stage 0 |1  1  1  1  2  2  2  2      2 from t=4
        stage 1 |1  1  1  1  1  1  1  1      1 from t=0
    """)
    assert "weight versions" not in section(report("1f1b", 2, 3), "held")
