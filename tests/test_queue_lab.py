"""The fluid queue of the lab: exact, never below zero."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pptrace.errors import LimitError, ParameterError
from pptrace.queue_lab import MAX_STEPS, QueueLab, run_steps


def backlogs(arrival: object, service: object, steps: int) -> list[Fraction]:
    return [reading.backlog for reading in run_steps(Fraction(arrival), Fraction(service), steps)]


def test_arrival_2_service_3_leaves_three_after_one_second():
    assert backlogs(2, 3, 2) == [4, Fraction(7, 2), 3]


def test_equal_rates_keep_the_initial_four():
    assert backlogs(4, 4, 2) == [4, 4, 4]


def test_without_arrivals_service_4_drains_in_one_second_and_stays_empty():
    assert backlogs(0, 4, 3) == [4, 2, 0, 0]


def test_the_backlog_never_goes_below_zero_and_grows_again_from_there():
    lab = QueueLab(0, 100)
    assert lab.step().backlog == 0
    lab.set_arrival(Fraction(101))
    assert lab.step().backlog == Fraction(1, 2)


def test_rates_of_a_third_stay_exact():
    assert backlogs("1/3", 0, 6)[-1] == 5


def test_a_right_and_a_wrong_prediction():
    lab = QueueLab(2, 3)
    lab.obey("p 3")
    assert lab.obey("n") == "0.5 s   backlog 3.5"
    assert lab.obey("n") == "1 s   backlog 3   you said 3: right"
    lab.obey("p 1")
    lab.step()
    assert lab.obey("n") == "2 s   backlog 2   you said 1: off by 1"


def test_reset_keeps_the_rates_and_forgets_the_rest():
    lab = QueueLab(2, 3)
    lab.step()
    assert lab.obey("r") == "0 s   backlog 4"
    assert (lab.arrival, lab.service, len(lab.readings)) == (2, 3, 1)


@pytest.mark.parametrize("line", ["x", "a", "a -1", "s x", "n 3 4", "p -2", "", "a 1/0"])
def test_a_command_that_there_is_not_is_refused_and_changes_nothing(line):
    lab = QueueLab(2, 3)
    with pytest.raises(ParameterError):
        lab.obey(line)
    assert (lab.arrival, lab.service, lab.readings[-1].backlog, lab.prediction) == (2, 3, 4, None)


def test_the_number_of_steps_is_limited():
    with pytest.raises(LimitError, match="10,000"):
        run_steps(1, 1, MAX_STEPS + 1)
    lab = QueueLab(1, 1)
    for _ in range(MAX_STEPS):
        lab.step()
    with pytest.raises(LimitError, match="reset"):
        lab.step()
