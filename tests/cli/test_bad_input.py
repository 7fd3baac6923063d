"""Bad input: one line that says what is wrong, where, and what to do; the right exit code; no traceback; files untouched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from running import answer, refusal, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = ("1f1b", "-P", "2", "-M", "2")


# -- sizes and names ------------------------------------------------------------------------------------------------


def test_missing_sizes_are_answered_with_an_example() -> None:
    wanted = "1f1b needs -P (ranks) and -M (microbatches), for example: pptrace show 1f1b -P 4 -M 8"
    assert refusal("show", "1f1b") == wanted
    assert refusal("trace", "gpipe", "-P", "4").startswith("gpipe needs -M (microbatches), for example: ")
    assert refusal("show").startswith("pptrace show needs NAME|FILE|-;")


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("0", "-P (ranks) must be at least 1, got 0"),
        ("-3", "-P (ranks) must be at least 1, got -3"),
        ("four", "-P (ranks): 'four' is not a whole number"),
        ("1.5", "-P (ranks): '1.5' is not a whole number"),
        ("", "-P (ranks): '' is not a whole number"),
        ("٤", "-P (ranks): '٤' is not a whole number"),
        ("9" * 5000, "-P (ranks): a number of 5000 digits is too large; at most 9 digits"),
        ("x" * 5000, f"-P (ranks): '{'x' * 37}...' is not a whole number"),
    ],
)
def test_a_number_of_ranks_that_is_none(value: str, wanted: str) -> None:
    assert refusal("show", "1f1b", "-P", value, "-M", "4") == wanted


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (("-M", "0"), "-M (microbatches) must be at least 1, got 0"),
        (("-M", "4", "-v", "2"), "1f1b takes no -v (chunks): it has 1 on every rank; leave it out"),
        (("-M", "4", "--group", "2"), "1f1b takes no --group; leave it out"),
        (("-M", "4", "--steps", "0"), "--steps must be at least 1, got 0"),
        (("-M", "4", "-f", "0"), "-f (forward) must be more than zero, got 0"),
        (("-M", "4", "-f", "-1"), "-f (forward) must be more than zero, got -1"),
        (("-M", "4", "-f", "nan"), "-f (forward): 'nan' is not a number; write 1, 1.5 or 3/2"),
        (("-M", "4", "-f", "1/0"), "-f (forward): '1/0' divides by zero"),
        (("-M", "4", "-f", "1,,2,3"), "-f (forward), value 2: '' is not a number; write 1, 1.5 or 3/2"),
        (("-M", "4", "-f", "1,2,3"), "-f (forward) has 3 values for 4 ranks; give one number, or one per rank"),
        (
            ("-M", "4", "-c", "1,2"),
            "-c (comm) has 2 values; give one number, or one per link between neighbouring ranks (3 here)",
        ),
        (("-M", "4", "-c", "-1"), "-c (comm) must be zero or more, got -1"),
        (
            ("-M", "4", "-b", "1", "-w", "2"),
            "stage 0: w = 2 is not less than b = 1; -b is the full backward (I+W); did you mean -b 3?",
        ),
        (("-M", "4", "--overlap", "most"), "--overlap is sum, max, split or a time, got 'most'"),
        (("-M", "4", "--order", "random"), "--order: 'random' is not one of 'fifo', 'lifo'"),
        (
            ("-M", "4", "--activation-bytes", "many"),
            "--activation-bytes: 'many' is not a size; write 4096, 512KiB, 1.5GiB or 2GB",
        ),
        (
            ("--global-batch", "10", "--microbatch-size", "3"),
            "--global-batch 10 is no multiple of microbatch size x data parallel = 3 x 1 = 3; change one of the three",
        ),
        (
            ("-M", "4", "--global-batch", "10"),
            "-M 4 contradicts --global-batch 10: 10 / (1 x 1) = 10 microbatches; leave one of the two out",
        ),
        (
            ("-M", "4", "--data-parallel", "2"),
            "--data-parallel belongs to --global-batch; give both, or -M (microbatches) alone",
        ),
        (("-M", "4", "--from", "json"), "--from is for files; 1f1b is a registered schedule"),
        (("-M", "4", "--width", "3"), "--width must be at least 20 characters, got 3"),
        (("-M", "4", "--only-ranks", "2-9"), "--only-ranks 2-9: ranks are 0..3, the lower one first"),
    ],
)
def test_an_option_that_cannot_be_used(args: tuple[str, ...], wanted: str) -> None:
    assert refusal("show", "1f1b", "-P", "4", *args) == wanted


def test_absurdly_long_times_are_refused_before_they_are_converted() -> None:
    assert refusal("show", *SMALL, "-f", "1" * 10_000).startswith("-f (forward): '1111")
    assert "at most 30 digits and an exponent within +-30" in refusal("show", *SMALL, "-f", "1e999999999")
    assert "would pass 2^53" in refusal("show", *SMALL, "-f", "1e20")
    assert "would pass 2^53" in refusal("show", *SMALL, "-f", "1/99999999999999999", "-b", "1/9999999999999997")


def test_more_than_max_ops_is_refused_before_memory_is_taken() -> None:
    wanted = "1f1b with P=100000000 M=100000000 has 20,000,000,000,000,000 ops, over the limit of 2,000,000;"
    assert refusal("show", "1f1b", "-P", "100000000", "-M", "100000000").startswith(wanted)
    assert "raise --max-ops" in refusal("trace", "1f1b", "-P", "4", "-M", "4", "--max-ops", "31")
    assert run("trace", "1f1b", "-P", "4", "-M", "4", "--max-ops", "32").exit_code == 0
    assert "over the limit" in refusal("trace", "1f1b", "-P", "4", "-M", "4", "--max-ops", "32", "--steps", "2")
    assert "over the limit" in refusal("show", "-", "--max-ops", "4", stdin=answer("trace", *SMALL))


def test_an_option_without_its_value() -> None:
    assert refusal("show", "1f1b", "-P", "4", "-M") == "--microbatches needs a value; --help says what it takes"


def test_a_deadlock_is_a_cycle_of_named_ops_and_exit_code_1() -> None:
    said = refusal("show", "interleaved", "-P", "4", "-M", "5", "-v", "3", "--group", "4", code=1)
    assert said.startswith("deadlock: rank ")
    assert " waits for " in said


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("1fb1", "no schedule is called '1fb1'; did you mean 1f1b?"),
        ("qqqqqqqq", "no schedule is called 'qqqqqqqq'; `pptrace schedules` lists the names"),
        ("1f1b,x=2", "1f1b,x=2: no key is called 'x'; "),
        ("1f1b,v", "1f1b,v: needs a value, for example 1f1b,v=2"),
        ("1f1b,M=0", "1f1b,M must be at least 1, got 0"),
        ("gpipe,order=up", "gpipe,order=up: order is fifo or lifo"),
    ],
)
def test_a_name_that_means_nothing(source: str, wanted: str) -> None:
    assert refusal("show", source, "-P", "2", "-M", "2").startswith(wanted)


def test_options_that_make_a_schedule_do_not_belong_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    answer("trace", *SMALL, "-o", str(path))
    said = refusal("show", str(path), "-P", "4")
    assert said.startswith("-P makes a registered schedule; ")
    assert said.endswith("brings its own order; leave it out")


# -- files ----------------------------------------------------------------------------------------------------------


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    assert refusal("show", str(missing)) == f"{missing}: No such file or directory"
    assert (
        refusal("show", f"{tmp_path}/")
        == f"{tmp_path}/: a directory without .json files; name a file, or a directory with a run's traces"
    )
    empty = tmp_path / "empty.json"
    empty.touch()
    assert refusal("show", str(empty)) == f"{empty}: the input is empty"
    assert refusal("show", "-", stdin="") == "standard input: the input is empty"
    assert "cannot hold a zero byte" in refusal("show", "./a\0b.json")
    assert refusal("show", "/proc/self/mem") == "/proc/self/mem: Input/output error"
    assert refusal("show", "1f1b", "-M", "2", "--costs", str(missing)) == f"{missing}: No such file or directory"


def test_standard_input_is_one_file() -> None:
    written = answer("trace", *SMALL)
    wanted = "standard input holds one file: the schedule or the costs; name the other"
    assert refusal("show", "-", "--costs", "-", stdin=written) == wanted
    assert "f=3 per op" in answer("show", *SMALL, "--costs", "-", stdin="forward = 3")


def test_a_file_of_no_known_kind_is_asked_for_its_format(tmp_path: Path) -> None:
    path = tmp_path / "costs.toml"
    path.write_text("forward = 1")
    assert refusal("show", str(path)).startswith(f"{path}: neither suffix nor content tells the format; say --from")
    assert refusal("show", str(path), "--from", "jsn") == "no format is called 'jsn'; did you mean json?"
    assert refusal("show", str(path), "--from", "csv") == "no format is called 'csv'; did you mean torch-compute?"


def test_a_fault_in_a_schedule_file_is_named_with_file_line_and_column(tmp_path: Path) -> None:
    path = tmp_path / "order.csv"
    path.write_text("0F0,0B0\n1F0,1X0\n")
    assert refusal("show", str(path)).startswith(f"{path}: line 2, column 5: ")


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"\xff\xfe{\x00}\x00", "byte 0 is not UTF-8"),
        (b'{"schema":"pptrace.trace/1","x":"\xff"}', "byte 33 is not UTF-8"),
        (b"{", "the input ends before the value does"),
        (b'{"schema":"pptrace.trace/1",\n"events":[}]}', "line 2, column 11: not JSON"),
        (b'{"schema":"pptrace.trace/1","ticks_per_unit":NaN}', "NaN is not a number that JSON has"),
        (b'{"schema":"pptrace.trace/1","ticks_per_unit":-Infinity}', "Infinity is not a number that JSON has"),
        (b"[]", "$: expected object, got array"),
        (b"{}", "the schema must be 'pptrace.trace/1'"),
        (b'{"schema":"pptrace.trace/2"}', "$.schema: the schema must be 'pptrace.trace/1'"),
        (b'{"traceEvents":[]}', ""),
        (b"[" * 100_000, ""),
        (b'{"schema":"pptrace.trace/1","a":' + b"[" * 100_000, "lists in lists without end"),
    ],
)
def test_json_that_is_no_trace(content: bytes, wanted: str) -> None:
    assert wanted in refusal("show", "-", "--from", "json", stdin=content)


def _event(found: dict[str, Any], name: str) -> dict[str, Any]:
    return next(event for event in found["events"] if event["id"] == name)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda t: t["events"][3].update(end="4"), "$.events[3].end: expected int, got str; `pptrace schema`"),
        (lambda t: t["events"][3].update(start=-1), "$.events[3].start: expected int >= 0"),
        (lambda t: t["events"][3].update(end=2**60), "$.events[3].end: expected int <= 9007199254740992"),
        (lambda t: t["events"][3].update(start=1.5), "$.events[3].start: expected int, got float"),
        (lambda t: t["events"][3].update(end=0), "$.events[3].end: 0 is before the start, 2"),
        (lambda t: t["events"][3].update(op="X"), "$.events[3].op: invalid enum value 'X'"),
        (lambda t: t["events"][3].update(rank=2), "$.events[3].rank: 2 is not one of the ranks 0..1"),
        (lambda t: t["events"][3].update(stage=7), "$.events[3].stage: 7 is not one of the stages 0..1"),
        (
            lambda t: t["events"][3].update(microbatch=2),
            "$.events[3].microbatch: 2 is not one of the microbatches 0..1",
        ),
        (
            lambda t: t["events"][3].update(microbatch=None),
            "$.events[3].microbatch: null; B is the work of one microbatch",
        ),
        (lambda t: t["events"][3].update(step=1), "$.events[3].step: 1 is not one of the steps 0..0"),
        (
            lambda t: t["events"][3].update(id="9F9"),
            "$.events[3].id: '9F9' does not fit the event's fields, which make '1B0'",
        ),
        (lambda t: t["events"][3].pop("rank"), "$.events[3]: object missing required field rank"),
        (lambda t: t.pop("events"), "$: object missing required field events"),
        (lambda t: t["events"].append(_event(t, "0F0")), "is there twice, before as $.events[0]; every op runs once"),
        (
            lambda t: _event(t, "0F1").update(start=0),
            "0F1 starts at 0, while rank 0 runs 0F0 until 1; a rank runs one op at a time",
        ),
        (lambda t: t["schedule"].update(ranks=10**8), "$.schedule.ranks: 100000000 is more than there are events (12)"),
        (lambda t: t["schedule"].update(ranks=0), "$.schedule.ranks: expected int >= 1"),
        (
            lambda t: t["schedule"].update(stage_ranks=[0, 5]),
            "$.schedule.stage_ranks[1]: 5 is not one of the ranks 0..1",
        ),
        (lambda t: t["schedule"].update(stage_ranks=[0]), "$.schedule.stage_ranks: 1 values for 2 stages"),
        (lambda t: t["costs"].update(comm=["1/0"]), "$.costs.comm[0]: '1/0' is not a number"),
        (lambda t: t["costs"].update(comm=["x"]), "$.costs.comm[0]: expected str matching regex"),
        (lambda t: t.update(ticks_per_unit=0), "$.ticks_per_unit: expected int >= 1"),
        (lambda t: t["events"].clear(), "$.schedule.ranks: 2 is more than there are events (0)"),
        (
            lambda t: t["events"].remove(_event(t, "0F1")),
            "standard input: rank 1: 1F1 needs the output of 0F1, which is in no rank's list",
        ),
    ],
)
def test_a_trace_with_one_thing_wrong_names_the_place(change: Callable[[dict[str, Any]], object], wanted: str) -> None:
    found = json.loads(answer("trace", *SMALL))
    change(found)
    assert wanted in refusal("show", "-", stdin=json.dumps(found))


def test_a_key_that_stands_twice_is_refused_with_its_place() -> None:
    written = answer("trace", *SMALL).replace('"rank":0,"stage":0,"op":"B"', '"rank":0,"rank":0,"stage":0,"op":"B"', 1)
    assert refusal("show", "-", stdin=written) == (
        "standard input: $.events[4].rank: the key stands there twice; leave one"
    )


def test_unknown_fields_are_ignored() -> None:
    found = json.loads(answer("trace", *SMALL))
    found["colour"] = {"a": [1]}
    found["events"][0]["note"] = "x"
    assert answer("show", "-", stdin=json.dumps(found)) == answer("show", *SMALL)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("{", "standard input: line 3: not JSON: the input ends before the value does"),
        ('{"id":"0F0"}', "standard input: line 3: $: object missing required field rank"),
        ('{"id":"0F0","rank":0,"rank":0}', "standard input: line 3: "),
    ],
)
def test_json_lines_name_the_line(line: str, wanted: str) -> None:
    lines = answer("trace", *SMALL, "-t", "jsonl").splitlines()
    lines[2] = line
    assert refusal("show", "-", stdin="\n".join(lines)).startswith(wanted)


def test_json_lines_name_the_line_of_a_wrong_event() -> None:
    lines = answer("trace", *SMALL, "-t", "jsonl").splitlines()
    lines[4] = lines[4].replace('"microbatch":0', '"microbatch":9')
    said = refusal("show", "-", stdin="\n".join(lines))
    assert said == "standard input: line 5: $.microbatch: 9 is not one of the microbatches 0..1"


# -- costs files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        ("forward = [1, 2, 3]", ": forward has 3 values for 4 stages; give one number, or one per stage"),
        ("forwrd = 1", ": unknown key 'forwrd'; did you mean forward?"),
        ("forward = ]", ": line 1, column 11: Invalid value; a costs file is TOML"),
        ("forward = nan", ": forward: 'nan' is not a number"),
        ("forward = -1", ": forward: a time must be more than zero, got -1"),
        ("forward = 1\nbackward = 2\nweight_grad = 2", "w = 2 is not less than b = 2; -b is the full backward"),
        ("microbatch_scale = [1, 2]", "microbatch_scale has 2 values for 3 microbatches"),
        ("comm = [1, 2]", "-c (comm) has 2 values; give one number"),
    ],
)
def test_a_costs_file_with_one_thing_wrong(tmp_path: Path, content: str, wanted: str) -> None:
    path = tmp_path / "costs.toml"
    path.write_text(content)
    assert wanted in refusal("show", "1f1b", "-P", "4", "-M", "3", "--costs", str(path))


# -- text from outside ----------------------------------------------------------------------------------------------


def test_escape_sequences_and_markup_in_labels_are_shown_not_obeyed() -> None:
    found = json.loads(answer("trace", *SMALL))
    found["schedule"]["name"] = "\x1b[31mred[/] [bold]x[/bold]\x07\u202e\n1f1b"
    found["costs"]["unit"] = "\x1b]0;t\x07"
    found["notes"] = ["[link=http://x]\x1b[2J"]
    for flags in ((), ("--color", "always")):
        shown = run("show", "-", *flags, stdin=json.dumps(found)).stdout
        assert "\\x1b[31mred[/] [bold]x[/bold]\\x07\\u202e\\n1f1b" in shown
        assert "\x07" not in shown
        assert "\x1b[2J" not in shown
        assert "\x1b[31mred" not in shown


def test_file_names_and_arguments_are_shown_not_obeyed() -> None:
    for source in ("\x1b[31m.json", "./a\nb.json", "\x1b[2J"):
        said = refusal("show", source)
        assert "\x1b" not in said
    assert "\\x1b[2J" in refusal("show", "1f1b", "-P", "\x1b[2J")
    assert "\\x1b" in refusal("\x1b[2J")


# -- writing --------------------------------------------------------------------------------------------------------


def test_an_existing_file_is_untouched_where_there_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text("kept")
    for args in (("1f1b", "-P", "0", "-M", "1"), ("interleaved,v=3,group=4", "-P", "4", "-M", "5"), ("x.json",)):
        assert run("trace", *args, "-o", str(path)).exit_code != 0
        assert path.read_text() == "kept"
    assert os.listdir(tmp_path) == ["kept.json"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    assert refusal("trace", *SMALL, "-o", str(tmp_path)) == f"{tmp_path}: is a directory; name a file"
    missing = tmp_path / "no" / "x.json"
    assert refusal("trace", *SMALL, "-o", str(missing)) == f"{missing}: No such file or directory"
    assert refusal("trace", *SMALL, "-o", "").startswith("-o '': the name of the output file is empty")
    assert refusal("show", *SMALL, "-o", str(tmp_path / "x.pdf")).startswith(
        "show writes text, json, jsonl, svg, html, tikz, md, not .pdf;"
    )
    assert refusal("trace", *SMALL, "-o", "x.svg") == (
        "trace writes json and jsonl, not svg; for that: pptrace convert ... -o x.svg"
    )
    assert refusal("show", *SMALL, "-o", "/dev/full") == "/dev/full: No space left on device"


def test_a_file_is_replaced_whole_and_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    answer("trace", *SMALL, "-o", str(link))
    assert link.is_symlink()
    assert target.read_text() == answer("trace", *SMALL)
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link.json", "target.json"]


# -- real processes -------------------------------------------------------------------------------------------------


def shell(line: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line.replace("PPTRACE", f"{sys.executable} -m pptrace")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **env},
    )


def test_a_full_disk_is_one_line() -> None:
    done = shell("PPTRACE trace 1f1b -P 4 -M 4 > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")
    done = shell("PPTRACE --help > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")


def test_a_device_is_written_as_it_is() -> None:
    done = shell("PPTRACE show 1f1b -P 2 -M 1 --section grid -o /dev/stdout | tail -1")
    assert (done.stdout, done.stderr) == ("stage 1 |.  F0 B0 .\n", "")


def test_a_closed_pipe_is_silent() -> None:
    done = shell("PPTRACE trace 1f1b -P 16 -M 256 | head -c 5; echo; echo ${PIPESTATUS[0]}")
    assert (done.stdout, done.stderr) == ('{"sch\n0\n', "")


def test_a_closed_standard_output_or_error_is_no_traceback() -> None:
    done = shell("PPTRACE show 1f1b -P 2 -M 2 >&-")
    assert (done.returncode, done.stderr) == (2, "error: standard output is closed; name a file with -o\n")
    done = shell("PPTRACE show 1f1b -P 0 -M 2 2>&-")
    assert (done.returncode, done.stdout) == (2, "")
    assert shell("PPTRACE show - 0> /dev/null").stderr == "error: standard input: Bad file descriptor\n"
    assert shell("PPTRACE show - <&-").stderr.startswith("error: standard input is closed;")


def test_an_ascii_locale_prints_escapes_instead_of_failing() -> None:
    found = json.loads(answer("trace", *SMALL))
    found["schedule"]["name"] = "Müller→"
    done = subprocess.run(
        [sys.executable, "-m", "pptrace", "show", "-", "--section", "header"],
        input=json.dumps(found).encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0
    assert done.stdout.startswith(b"M\\xfcller\\u2192 ")


INTERRUPTED_WHILE_READING = """
import os, signal, sys
from pptrace.cli import main

class Keyboard:
    closed = False
    buffer = property(lambda self: self)
    isatty = lambda self: False
    read = lambda self, most: os.kill(os.getpid(), signal.SIGINT)

sys.stdin = Keyboard()
main(["show", "-"])
"""


def test_an_interrupt_is_exit_code_130_and_silent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_READING], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_standard_input_on_a_terminal_is_asked_for_a_pipe() -> None:
    leader, follower = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pptrace", "show", "-"],
            stdin=follower,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(leader)
        os.close(follower)
    assert done.returncode == 2
    assert done.stderr == (
        "error: - is standard input, and nothing is piped into it; try: pptrace trace 1f1b -P 4 -M 4 | pptrace show -\n"
    )
