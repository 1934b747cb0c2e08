"""Whether two programs differ in speed: two long-lived processes in alternating blocks of steps.

    from gpuwhy.experiments.pairs import compare
    compare(["python", "train.py"], ["gpuwhy", "run", "train.py"])

A shared host is up to three times slower at one minute than at another, so that neighbours in time are compared: a
round is four blocks, A B B A, and its ratio is that of the products. What drifts evenly over a round falls out of it.
Each program calls `blocks.serve(step)`.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

from gpuwhy.errors import GpuwhyError
from gpuwhy.experiments.blocks import PIPES, READY
from gpuwhy.experiments.sequence import Interval, always_valid
from gpuwhy.reports.words import shorten

ENDING_S = 10.0
"""A program that does not end so long after it was asked for the last time is killed."""
LONGEST_ANSWER, MOST_NAME = 1_000, 80
HOW = "it has to call gpuwhy.experiments.blocks.serve(step), and to leave its pipes alone"
Answer = Literal["differ", "same", "cannot tell"]
Command = Sequence[str]


@dataclass(frozen=True)
class Plan:
    """How long is measured, and when that is enough.

    It ends when the interval of the ratio leaves out 1 (they differ), or lies within 1 ± `same` (they do not), or after
    `rounds`. `block_s` is how long a block lasts, `warm_s` how long both programs run before the first.
    """

    rounds: int = 100
    same: float = 0.01
    block_s: float = 0.5
    warm_s: float = 1.0
    start_s: float = 600.0
    """A program that is not ready, or takes longer for a block, is given up."""
    early: bool = True
    """Stop as soon as it is known; otherwise all rounds are made, and a plain bootstrap of them is fair, too."""


@dataclass(frozen=True)
class Round:
    """Seconds of the four blocks, in their order A B B A, each of so many steps."""

    seconds: tuple[float, float, float, float]

    @property
    def ratio(self) -> float:
        """Time of B over that of A."""
        first, second, third, last = self.seconds
        return math.sqrt(second * third / (first * last))


@dataclass(frozen=True)
class Comparison:
    """What came out. `steps` is the length of a block; a step of A takes `step_s` in the median of its blocks."""

    answer: Answer
    ratio: Interval
    rounds: list[Round] = field(repr=False)
    steps: int
    step_s: float


def compare(
    a: Command, b: Command, plan: Plan | None = None, on_round: Callable[[Comparison], object] = lambda so_far: None
) -> Comparison:
    """Run both programs in turns until it is known whether they differ.

    `on_round` sees what is known after each round. Raises GpuwhyError if a program ends, or does not answer.
    """
    plan = plan or Plan()
    with ExitStack() as stack:
        one, other = (stack.enter_context(started(command, plan)) for command in (a, b))
        steps = _steps(one, other, plan)
        rounds: list[Round] = []
        while True:
            order = (one, other, other, one)
            first, second, third, last = (program.seconds(steps) for program in order)
            rounds.append(Round((first, second, third, last)))
            so_far = judge(rounds, steps, plan)
            on_round(so_far)
            known = plan.early and so_far.answer != "cannot tell"
            if known or len(rounds) >= plan.rounds:
                return so_far


def judge(rounds: Sequence[Round], steps: int, plan: Plan) -> Comparison:
    """What some rounds tell."""
    ratio = always_valid([one.ratio for one in rounds])
    answer: Answer = "cannot tell"
    if ratio.low > 1 or ratio.high < 1:
        answer = "differ"
    elif ratio.low >= 1 - plan.same and ratio.high <= 1 + plan.same:
        answer = "same"
    own = sorted(seconds for one in rounds for seconds in (one.seconds[0], one.seconds[3]))
    return Comparison(answer, ratio, list(rounds), steps, own[len(own) // 2] / steps)


def _steps(one: Program, other: Program, plan: Plan) -> int:
    """Steps that take a block's time in the faster program, found while both warm up."""
    steps, spent = 1, 0.0
    while True:
        taken = [program.seconds(steps) for program in (one, other)]
        spent += sum(taken)
        if min(taken) >= plan.block_s and spent >= plan.warm_s:
            return steps
        wanted = plan.block_s / max(min(taken) / steps, 1e-9)
        steps = max(1, min(math.ceil(wanted), 4 * steps)) if min(taken) < plan.block_s else steps


class Program:
    """A started program, at the other ends of its pipes."""

    def __init__(self, process: subprocess.Popen[bytes], asks: int, answers: int, plan: Plan) -> None:
        self.process, self.asks, self.answers, self.plan = process, asks, answers, plan
        if (first := self._line()) != READY:
            raise GpuwhyError(f"{self._name()}: said {first!r} where {READY!r} was expected", hint=HOW)

    def seconds(self, steps: int) -> float:
        """How long a block of so many steps takes."""
        try:
            os.write(self.asks, f"{steps}\n".encode())
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._line()
        try:
            seconds = float(answer)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            raise GpuwhyError(f"{self._name()}: answered {answer!r}, which is no time", hint=HOW)
        return seconds

    def _line(self) -> str:
        """One line, within the time that a program has."""
        text, until = b"", time.monotonic() + self.plan.start_s
        while not text.endswith(b"\n"):
            ready, _, _ = select.select([self.answers], [], [], max(until - time.monotonic(), 0))
            if not ready or len(text) > LONGEST_ANSWER:
                raise GpuwhyError(f"{self._name()}: no answer in {self.plan.start_s:g} s", hint=HOW)
            more = os.read(self.answers, 4096)
            if not more:
                raise self._ended()
            text += more
        return text.decode(errors="replace").rstrip("\n")

    def _ended(self) -> GpuwhyError:
        try:
            what = f"ended with status {self.process.wait(ENDING_S)}"
        except subprocess.TimeoutExpired:
            what = "closed its pipe"
        return GpuwhyError(f"{self._name()}: {what} before it was measured", hint=HOW)

    def _name(self) -> str:
        return shorten(" ".join(map(str, self.process.args)), MOST_NAME)  # type: ignore[arg-type]


@contextmanager
def started(command: Command, plan: Plan) -> Iterator[Program]:
    """A program with its pipes; it is asked to end by closing them, and killed if it does not."""
    its_questions, asks = os.pipe()
    answers, its_answers = os.pipe()
    own = [asks, answers]
    try:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                pass_fds=(its_questions, its_answers),
                start_new_session=True,
                env={**os.environ, PIPES: f"{its_questions},{its_answers}"},
            )
        except (OSError, ValueError, IndexError) as error:
            raise GpuwhyError(f"{' '.join(command)[:MOST_NAME]!r} cannot be started: {error}") from None
        finally:
            os.close(its_questions)
            os.close(its_answers)
        try:
            yield Program(process, asks, answers, plan)
        finally:
            os.close(own.pop(0))
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
            with suppress(ProcessLookupError):  # and whatever it has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    finally:
        for pipe in own:
            os.close(pipe)
