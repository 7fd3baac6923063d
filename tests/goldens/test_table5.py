"""The printed bubble rates of Table 5 of the zero-bubble paper (arXiv 2401.10241), to four decimals.

The paper's bubble is that of the longest rank span, its T_B is the input half of the backward.
"""

from __future__ import annotations

from fractions import Fraction

import golden_data
import pytest
import timed_facts

from pptrace.costs import Costs, values
from pptrace.schedules.registry import Params, build
from pptrace.timeline import simulate_schedule

ROWS = golden_data.rows("goldens/zero_bubble_paper_table5.csv")
COLUMNS = {"paper_1F1B": "1f1b", "paper_ZB_H1": "zb-h1", "paper_ZB_H2": "zb-h2"}


def test_the_table_has_twelve_rows() -> None:
    assert len(ROWS) == 12


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']}-m{row['m']}")
def test_printed_rate(row: dict[str, str], column: str) -> None:
    costs = Costs(
        forward=values(row["T_F_us"]),
        backward=values(int(row["T_B_us"]) + int(row["T_W_us"])),
        weight_grad=values(row["T_W_us"]),
        comm=(Fraction(row["T_comm_us"]),),
    )
    timeline = simulate_schedule(build(COLUMNS[column], Params(int(row["p"]), int(row["m"]))), costs)
    rate = timed_facts.facts(timeline).span_rate
    assert round(rate, 4) == Fraction(row[column])
