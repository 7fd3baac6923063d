"""The queue lab: a fluid queue, exact, to think about outstanding work. It owns the queue and its few commands; it knows
no stage, no microbatch and no schedule, and nothing in pptrace is derived from it.

Work arrives at one rate and is served at another; the backlog never goes below zero. Reset puts four units into it, Step
lets half a second pass.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from pptrace.errors import LimitError, ParameterError
from pptrace.rationals import parse_rational, text_of

INITIAL = Fraction(4)
STEP = Fraction(1, 2)
PREDICTED_AFTER = Fraction(1)
MAX_STEPS = 10_000

LIMITS = (
    "what this lab is not: it has no stages, no microbatches and no bubble equation, and its drain is not a training "
    "bubble; derive a bound from a hand trace instead: pptrace show 1f1b -P 4 -M 4"
)
COMMANDS_HELP = (
    "r reset   a RATE arrival   s RATE service   p GUESS predict the backlog in one second   n step   q quit"
)


class Reading(NamedTuple):
    """The backlog at one time, and the rates that brought it there."""

    time: Fraction
    backlog: Fraction
    arrival: Fraction
    service: Fraction


class Prediction(NamedTuple):
    """Somebody's guess of the backlog at `time`."""

    time: Fraction
    guess: Fraction

    def verdict(self, backlog: Fraction) -> str:
        """`you said 3: right`, or by how much it was off."""
        if self.guess == backlog:
            return f"you said {text_of(self.guess)}: right"
        return f"you said {text_of(self.guess)}: off by {text_of(abs(self.guess - backlog))}"


class QueueLab:
    """One queue. `readings` holds every reading since the last Reset, the one at time 0 first."""

    def __init__(self, arrival: Fraction | int = 0, service: Fraction | int = 0) -> None:
        self.arrival = Fraction(0)
        self.service = Fraction(0)
        self.set_arrival(Fraction(arrival))
        self.set_service(Fraction(service))
        self.prediction: Prediction | None = None
        self.readings: list[Reading] = []
        self.reset()

    @property
    def now(self) -> Reading:
        return self.readings[-1]

    def reset(self) -> Reading:
        """Back to time 0 with four units of work; the rates stay."""
        self.prediction = None
        self.readings = [Reading(Fraction(0), INITIAL, self.arrival, self.service)]
        return self.now

    def set_arrival(self, rate: Fraction) -> None:
        """Units of work that arrive per second from now on. Raises `ParameterError` below zero."""
        self.arrival = _rate(rate, "arrival")

    def set_service(self, rate: Fraction) -> None:
        """Units of work that can be served per second from now on. Raises `ParameterError` below zero."""
        self.service = _rate(rate, "service")

    def predict(self, guess: Fraction) -> Prediction:
        """Keep a guess of the backlog one second from now."""
        if guess < 0:
            message = f"a backlog is never below zero, got the guess {text_of(guess)}"
            raise ParameterError(message)
        self.prediction = Prediction(self.now.time + PREDICTED_AFTER, guess)
        return self.prediction

    def step(self) -> Reading:
        """Let half a second pass. With constant rates the backlog is a straight line until it is empty: exact.

        Raises `LimitError` after 10,000 steps.
        """
        if len(self.readings) > MAX_STEPS:
            message = f"the lab ends after {MAX_STEPS:,} steps; reset it"
            raise LimitError(message)
        backlog = max(Fraction(0), self.now.backlog + (self.arrival - self.service) * STEP)
        self.readings.append(Reading(self.now.time + STEP, backlog, self.arrival, self.service))
        return self.now

    def obey(self, line: str) -> str | None:
        """Carry out one command (`r`, `a 2`, `s 3`, `p 3`, `n`); the sentence that answers it, None for `q`.

        Raises `ParameterError` for a command that there is not.
        """
        word, _, argument = line.strip().partition(" ")
        if word in ("r", "reset") and not argument:
            self.reset()
            return self.state()
        if word in ("n", "step") and not argument:
            self.step()
            return self.state()
        if word in ("a", "arrival") and argument:
            self.set_arrival(parse_rational(argument, "arrival"))
            return f"arrival rate {text_of(self.arrival)}"
        if word in ("s", "service") and argument:
            self.set_service(parse_rational(argument, "service"))
            return f"service rate {text_of(self.service)}"
        if word in ("p", "predict") and argument:
            made = self.predict(parse_rational(argument, "prediction"))
            return f"you say {text_of(made.guess)} at {text_of(made.time)} s"
        if word in ("q", "quit") and not argument:
            return None
        message = f"{line.strip()[:40]!r} is no command of the lab; {COMMANDS_HELP}"
        raise ParameterError(message)

    def state(self) -> str:
        """`1 s   backlog 3`, and the verdict on a prediction whose time has come."""
        sentence = f"{text_of(self.now.time)} s   backlog {text_of(self.now.backlog)}"
        if self.prediction and self.prediction.time == self.now.time:
            sentence += f"   {self.prediction.verdict(self.now.backlog)}"
        return sentence


def _rate(rate: Fraction, name: str) -> Fraction:
    if rate < 0:
        message = f"the {name} rate must be zero or more, got {text_of(rate)}"
        raise ParameterError(message)
    return rate


def run_steps(arrival: Fraction | int, service: Fraction | int, num_steps: int) -> list[Reading]:
    """A fresh Reset and `num_steps` Steps at fixed rates: the readings, the one at time 0 first."""
    if num_steps > MAX_STEPS or num_steps < 0:
        message = f"--steps takes 0 to {MAX_STEPS:,}, got {num_steps}"
        raise LimitError(message)
    lab = QueueLab(arrival, service)
    for _ in range(num_steps):
        lab.step()
    return lab.readings
