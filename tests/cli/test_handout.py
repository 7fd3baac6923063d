"""`pptrace handout`: what is written where, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from running import answer, refusal, run

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ("-P", "2", "-M", "2")


def test_text_on_stdout() -> None:
    text = answer("handout", "1f1b", "-P", "4", "-M", "4")
    assert text.startswith("1f1b (flush)\n============\n")
    assert "2M + 2(P-1) = 2*4 + 2*(4-1) = 8 + 6 = 14" in text


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("x.html", "<!DOCTYPE html>"),
        ("x.htm", "<!DOCTYPE html>"),
        ("x.md", "# 1f1b"),
        ("x.tex", "\\documentclass"),
        ("x.svg", "<?xml"),
        ("x.TXT", "1f1b (flush)"),
    ],
)
def test_the_suffix_says_what_it_is(tmp_path: Path, name: str, begins: str) -> None:
    path = tmp_path / name
    assert answer("handout", "1f1b", *SMALL, "-o", str(path)) == ""
    assert path.read_text(encoding="utf-8").startswith(begins)


def test_to_overrides_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "x.dat"
    answer("handout", "1f1b", *SMALL, "-t", "md", "-o", str(path))
    assert path.read_text(encoding="utf-8").startswith("# 1f1b")


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pdf"
    assert "a page is html, md, svg, tex, txt; use such a suffix, or -t" in refusal(
        "handout", "1f1b", *SMALL, "-o", str(path)
    )
    assert not path.exists()


def test_a_trace_makes_the_same_page_as_its_schedule() -> None:
    trace = answer("trace", "1f1b", "-P", "4", "-M", "4")
    assert answer("handout", "-", stdin=trace) == answer("handout", "1f1b", "-P", "4", "-M", "4")


def test_a_file_with_markup_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=y>.toml"
    path.write_text("forward = [1, 2]\nbackward = 2\n", encoding="utf-8")
    page = answer("handout", "1f1b", "-M", "2", "--costs", str(path), "-t", "html")
    assert "&lt;img src=x onerror=y&gt;.toml" in page
    assert "<img" not in page


def test_title_and_markup_in_it() -> None:
    page = answer("handout", "1f1b", *SMALL, "-t", "html", "--title", "<b>Lesson</b> 3\x1b[0m")
    assert "<h1>&lt;b&gt;Lesson&lt;/b&gt; 3\\x1b[0m</h1>" in page


def test_comparison_takes_the_sizes_of_the_first() -> None:
    text = answer("handout", "1f1b", "-P", "4", "-M", "4", "--compare", "interleaved,v=2")
    assert "Beside it: interleaved (flush, group=4)" in text
    assert "1f1b (flush)" in text


def test_comparison_takes_one_set_of_default_costs() -> None:
    """zb-h1 splits its backward: b=2 for both."""
    text = answer("handout", "1f1b", "-P", "4", "-M", "8", "--compare", "zb-h1")
    assert "zb-h1 (flush) takes 6 less." in text
    assert "f=1 b=2 per microbatch and rank" in text


def test_comparison_leaves_out_what_the_other_does_not_take() -> None:
    text = answer("handout", "gpipe", "-P", "2", "-M", "2", "--order", "lifo", "--compare", "1f1b")
    assert "Beside it: 1f1b" in text


def test_comparison_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    answer("trace", "gpipe", "-P", "4", "-M", "4", "-o", str(path))
    assert "against 4 on every stage" in answer("handout", "1f1b", "-P", "4", "-M", "4", "--compare", str(path))


def test_a_name_beside_a_file_takes_its_sizes(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    answer("trace", "looped-bfs", "-P", "2", "-M", "4", "-v", "3", "-o", str(path))
    text = answer("handout", str(path), "--compare", "interleaved")
    assert "interleaved (flush, group=2), P=2 ranks, v=3 chunks a rank, S=6 stages, M=4 microbatches" in text


def test_answers_in_a_file_of_their_own(tmp_path: Path) -> None:
    sheet, key = tmp_path / "sheet.md", tmp_path / "key.html"
    answer("handout", "1f1b", "-P", "4", "-M", "4", "--exercise", "--answers", str(key), "-o", str(sheet))
    assert "6/14" not in sheet.read_text(encoding="utf-8")
    assert "6/14" in key.read_text(encoding="utf-8")
    assert key.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_answers_have_a_suffix_of_their_own(tmp_path: Path) -> None:
    sheet, key = tmp_path / "sheet.html", tmp_path / "key.txt"
    exercise = ("handout", "1f1b", *SMALL, "--exercise")
    answer(*exercise, "-t", "html", "--answers", str(key), "-o", str(sheet))
    assert not key.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    message = refusal(*exercise, "--answers", str(tmp_path / "key.pdf"), "-o", str(sheet))
    assert ": a page is html, md, svg, tex, txt; use such a suffix, or -t" in message


def test_the_page_is_not_its_own_key_by_another_name(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.md"
    sheet.write_text("mine", encoding="utf-8")
    (tmp_path / "link.md").symlink_to(sheet)
    for other in (f"{tmp_path}/./sheet.md", str(tmp_path / "link.md")):
        message = refusal("handout", "1f1b", *SMALL, "--exercise", "--answers", other, "-o", str(sheet))
        assert "--answers needs a file other than that of the page" in message
    assert sheet.read_text(encoding="utf-8") == "mine"


def test_without_its_key_a_page_is_not_written(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.md"
    nowhere = tmp_path / "nowhere" / "key.md"
    assert "No such file" in refusal(
        "handout", "1f1b", *SMALL, "--exercise", "--answers", str(nowhere), "-o", str(sheet)
    )
    assert list(tmp_path.iterdir()) == []


def test_the_same_seed_writes_the_same_bytes() -> None:
    commands = [("handout", "1f1b", "-P", "4", "-M", "4", "--exercise", "--seed", seed, "-t", "html") for seed in "778"]
    first, again, other = (answer(*command) for command in commands)
    assert first == again != other


def test_svg_of_an_exercise_is_its_figure(tmp_path: Path) -> None:
    result = run("handout", "1f1b", *SMALL, "--exercise", "-o", str(tmp_path / "x.svg"))
    assert result.exit_code == 0
    assert result.stderr == "note: svg has the figure only; the questions need html, md, tex or txt\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--holes", "3"), "--holes belongs to --exercise; give both"),
        (("--seed", "3"), "--seed belongs to --exercise; give both"),
        (("--answers", "x.md"), "--answers belongs to --exercise; give both"),
        (("--exercise", "--holes", "many"), "--holes: 'many' is not a whole number"),
        (("--exercise", "--holes", "0"), "--holes must be at least 1, got 0"),
        (("--exercise", "--holes", "9"), "the schedule has 8 ops; give fewer, or --holes all"),
        (("--exercise", "--seed", "-1"), "--seed is a whole number of at most 18 digits, got '-1'"),
        (("--exercise", "--seed", "9" * 19), "--seed is a whole number of at most 18 digits"),
        (("--exercise", "--answers", "-"), "--answers needs a file other than that of the page"),
        (("--exercise", "--answers", "x.md", "-o", "x.md"), "--answers needs a file other than that of the page"),
        (("--exercise", "--compare", "gpipe"), "leave --compare or --exercise out"),
        (("-t", "svg", "--compare", "gpipe"), "svg is one figure; --compare needs html, md, tex or txt"),
        (("-t", "svg", "--lab"), "svg is one figure; --lab needs html, md, tex or txt"),
        (("--compare", "gpip"), "no schedule is called 'gpip'; did you mean gpipe?"),
        (("--compare", "nowhere.json"), "nowhere.json: No such file or directory"),
        (("-M", "9000", "-P", "2"), "36,004 ops are too many for a page (at most 20,000)"),
    ],
    ids=str,
)
def test_what_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refusal("handout", "1f1b", *SMALL, *arguments)


def test_a_failed_page_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("mine", encoding="utf-8")
    refusal("handout", "1f1b", *SMALL, "--exercise", "--holes", "9", "-o", str(path))
    assert path.read_text(encoding="utf-8") == "mine"
