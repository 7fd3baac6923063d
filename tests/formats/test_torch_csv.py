"""PyTorch schedule CSV: every file of the goldens reads and comes out byte for byte; what the letter B means; bad input."""

from __future__ import annotations

import golden_data
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pptrace.errors import FormatError, LimitError, ParameterError
from pptrace.formats import torch_csv
from pptrace.formats.op_text import cell_text
from pptrace.listing import Cell, Listing
from pptrace.model import KINDS_WITHOUT_MICROBATCH, Op, OpKind

ZB1P = "inputs/schedules/pytorch_zb1p_2rank_2stagep_compute.csv"
ZB1P_COMMS = "inputs/schedules/pytorch_zb1p_2rank_2stagep_comms.csv"


def ops_of(data: bytes, **options: object) -> list[list[str]]:
    listing = torch_csv.read(data, **options)  # type: ignore[arg-type]
    return [[cell_text(cell.ops) for cell in row] for row in listing.rows]


def test_there_are_322_files_of_pytorch() -> None:
    assert len(golden_data.names("goldens/torch_csv/")) == 322


@pytest.mark.parametrize("path", golden_data.names("goldens/torch_csv/"))
def test_a_file_of_pytorch_comes_out_byte_for_byte(path: str) -> None:
    data = golden_data.data(path)
    assert torch_csv.write(torch_csv.read(data)) == data


@pytest.mark.parametrize("path", golden_data.names("inputs/schedules/"))
def test_input_files_read_as_they_stand(path: str) -> None:
    listing = torch_csv.read(golden_data.data(path))
    written = golden_data.text(path).rstrip("\n").replace("\r", "").split("\n")
    texts = [",".join(cell.text for cell in row) for row in listing.rows]
    assert texts == [",".join(filter(None, line.split(","))) for line in written]


def test_places_are_those_of_the_file() -> None:
    rows = torch_csv.read(b"0F0,,0F1\n\n 2UNSHARD,(2F1;3B0)OVERLAP_F_B\n").rows
    assert [[(c.line, c.column) for c in row] for row in rows] == [[(1, 1), (1, 6)], [], [(3, 2), (3, 11)]]


@pytest.mark.parametrize(
    "data",
    [
        b"0F0,0B0\n1F0,1B0\n",
        b"0F0,0B0\r\n1F0,1B0\r\n",
        b"0F0,0B0\r1F0,1B0",
        b"\xef\xbb\xbf0F0,0B0\n1F0,1B0\n\n\n",
        b' 0F0 ,"0B0"\n1F00,\t1B0 \n',
    ],
)
def test_line_ends_marks_blanks_and_quotes_do_not_matter(data: bytes) -> None:
    assert ops_of(data) == [["0F0", "0B0"], ["1F0", "1B0"]]


def test_ragged_rows_and_empty_cells_are_kept() -> None:
    data = b"0F0,,,0B0\r\n,1F0,1B0,,\r\n,,\r\n"
    listing = torch_csv.read(data)
    assert listing.blanks == ((1, 2), (0, 3, 4), (0, 1, 2))
    assert torch_csv.write(listing) == data


def test_the_whole_grammar() -> None:
    row = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0I0,0W0,0B1,0REDUCE_GRAD,0RESHARD,(0F7;7B0)OVERLAP_F_B,(7F4;0I0)OVERLAP_F_B"
    more = "1RECV_F0,1SEND_B0"
    assert ops_of(f"{row}\n{more}\n".encode()) == [row.split(","), more.split(",")]


# ------------------------------------------------------------------------------------------------------- the letter B


def test_b_is_full_where_no_stage_has_w() -> None:
    listing = torch_csv.read(b"0F0,0B0\n")
    assert listing.rows[0][1].ops == (Op(0, OpKind.B, 0),)
    assert listing.notes == ("letter B: the full backward, because no stage has a W",)


def test_b_is_full_where_the_file_writes_i() -> None:
    assert ops_of(b"0F0,0I0,0W0\n1F0,1B0\n") == [["0F0", "0I0", "0W0"], ["1F0", "1B0"]]


def test_b_is_the_input_half_in_the_zero_bubble_file() -> None:
    listing = torch_csv.read(golden_data.data(ZB1P))
    kinds = {op.kind for row in listing.rows for cell in row for op in cell.ops}
    assert kinds == {OpKind.F, OpKind.I, OpKind.W}
    assert listing.notes == ("letter B: the input half, because its stages have W",)


def test_with_bw_in_the_file_b_is_the_input_half_and_bw_the_full_backward() -> None:
    assert ops_of(b"0F0,0BW0\n1F0,1B0\n") == [["0F0", "0B0"], ["1F0", "1I0"]]
    listing = torch_csv.read(golden_data.data(ZB1P_COMMS))
    assert "because the file writes BW" in listing.notes[0]
    assert sum(op.kind is OpKind.B for cell in listing.rows[0] for op in cell.ops) == 16


def test_a_lost_w_does_not_make_its_b_a_full_backward() -> None:
    rows = ops_of(b"0F0,0F1,0B0,0W0,0B1\n1F0,1F1,1B0,1B1\n")
    assert rows == [["0F0", "0F1", "0I0", "0W0", "0I1"], ["1F0", "1F1", "1B0", "1B1"]]


def test_the_note_names_the_stages_of_a_mixed_file() -> None:
    (note,) = torch_csv.read(b"0F0,0B0,0W0\n1F0,1B0\n").notes
    assert note == "letter B: the input half in stage 0, which has W; the full backward in the others"


@pytest.mark.parametrize(("letter", "kind"), [("full", "0B0"), ("input", "0I0")])
def test_the_letter_can_be_said(letter: str, kind: str) -> None:
    assert ops_of(b"0F0,0B0,0W0\n", letter=letter) == [["0F0", kind, "0W0"]]


def test_the_letter_holds_inside_pairs() -> None:
    assert ops_of(b"0F0,(0F1;0B0)OVERLAP_F_B,0W0,0B1\n") == [["0F0", "(0F1;0I0)OVERLAP_F_B", "0W0", "0I1"]]


def test_another_letter_is_refused() -> None:
    with pytest.raises(ParameterError, match="--letter-b is auto, full or input"):
        torch_csv.read(b"0F0,0B0\n", letter="both")


# ---------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "line 1, column 1: the file is empty"),
        (b"\n\n", "line 1, column 1: the file is empty"),
        (b",,\n,\n", "line 1, column 1: the file has no op"),
        (b"0F0,0B0\n1F0,1X0\n", "line 2, column 5: '1X0' is not an op"),
        (b"0F0, 0f0\n", "line 1, column 6: '0f0' is not an op"),
        (b"0F0junk\n", "line 1, column 1: '0F0junk' is not an op"),
        (b"F0\n", "line 1, column 1: 'F0' is not an op"),
        (b"0F\n", "line 1, column 1: '0F': F needs a microbatch number"),
        (b"-1F0\n", "line 1, column 1: '-1F0' is not an op"),
        (b"0UNSHARD3\n", "line 1, column 1: '0UNSHARD3': UNSHARD takes no microbatch number"),
        (b"0F0,0F999999999\n", "line 1, column 5: '0F999999999': microbatch numbers go up to"),
        (b"0F" + b"9" * 5000, "line 1, column 1: '0F9999999"),
        (b"123456789F0\n", "line 1, column 1: '123456789F0': stage numbers go up to"),
        (b"()OVERLAP_F_B\n", "line 1, column 1: '()OVERLAP_F_B': an overlapped pair has two ops, this has 1"),
        (b"(0F0;0B1;0F2)OVERLAP_F_B", "has two ops, this has 3"),
        (b"(0F0;1F1)OVERLAP_F_B", "an overlapped pair is one F and one B"),
        (b"(0F0;1W1)OVERLAP_F_B", "an overlapped pair is one F and one B"),
        (b"(0F0;1B1)", "an overlapped pair is written"),
        (b"(0F0;1B1", "an overlapped pair is written"),
        (b"0F0,\xff0F1\n", "line 1, column 5: byte 0xff is not UTF-8"),
        (b"0F0\n1F0,\x00\n", r"line 2, column 5: control character '\\x00'"),
        (b"0F0\n\x1b[31m1F0\n", r"line 2, column 1: control character '\\x1b'"),
        ("0F0,‮1F0\n".encode(), r"line 1, column 5: '\\u202e1F0' is not an op"),
        ("٣F0\n".encode(), "is not an op"),
        (b"\xff\xfe0\x00F\x00", "UTF-16; save a schedule file as UTF-8"),
    ],
)
def test_bad_input_is_told_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=r"^line ") as caught:
        torch_csv.read(data)
    assert message.replace("\\\\", "\\") in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_cells_that_are_no_ops_can_be_kept_for_the_checker() -> None:
    (row,) = torch_csv.read(b"0F0,nonsense,0B0\n", keep_unknown=True).rows
    assert [(cell.ops, cell.text) for cell in row][1] == ((), "nonsense")


def test_a_negative_microbatch_is_kept_for_the_checker_to_name() -> None:
    assert ops_of(b"0F-1,0F0\n") == [["0F-1", "0F0"]]


def test_a_file_with_too_many_cells_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(LimitError, match="4,000,001 cells"):
        torch_csv.read(b"," * 4_000_000)


def test_a_file_with_too_many_rows_is_refused() -> None:
    with pytest.raises(LimitError, match="20,000 rows"):
        torch_csv.read(b"0F0\n" * 20_000)


@pytest.mark.parametrize("op", [Op(0, OpKind.STEP, None), Op(0, OpKind.R, 1), Op(0, OpKind.F, 0, 1)])
def test_ops_that_pytorch_does_not_have_are_not_written(op: Op) -> None:
    with pytest.raises(FormatError, match="cannot be written"):
        torch_csv.write(Listing(((Cell((op,), str(op)),),)))


# --------------------------------------------------------------------------------------------------------- properties

NUMBERED = [
    OpKind.F,
    OpKind.B,
    OpKind.I,
    OpKind.W,
    OpKind.SEND_F,
    OpKind.RECV_F,
    OpKind.SEND_B,
    OpKind.RECV_B,
]
numbered = st.builds(Op, st.integers(0, 99_999), st.sampled_from(NUMBERED), st.integers(0, 9_999_999), st.just(0))
plain = st.builds(Op, st.integers(0, 99_999), st.sampled_from(sorted(KINDS_WITHOUT_MICROBATCH)), st.none(), st.just(0))
forwards = st.builds(Op, st.integers(0, 99), st.just(OpKind.F), st.integers(0, 99), st.just(0))
backwards = st.builds(Op, st.integers(0, 99), st.sampled_from([OpKind.B, OpKind.I]), st.integers(0, 99), st.just(0))
cells = st.one_of(st.tuples(numbered), st.tuples(plain), st.tuples(forwards, backwards), st.tuples(backwards, forwards))
rows = st.lists(st.lists(cells, min_size=1, max_size=8), min_size=1, max_size=6)


@given(rows, st.data())
def test_what_is_written_reads_back_as_it_was(written: list[list[tuple[Op, ...]]], data: st.DataObject) -> None:
    blanks = []
    for row in written:
        places = range(len(row) + data.draw(st.integers(0, 3)))
        blanks.append(tuple(sorted(data.draw(st.permutations(places))[: len(places) - len(row)])))
    listing = Listing(
        tuple(tuple(Cell(ops, cell_text(ops)) for ops in row) for row in written),
        blanks=tuple(blanks) if any(blanks) else (),
    )
    content = torch_csv.write(listing)
    back = torch_csv.read(content, letter="full")
    assert [[cell.ops for cell in row] for row in back.rows] == written
    assert back.blanks == listing.blanks
    assert torch_csv.write(back) == content
