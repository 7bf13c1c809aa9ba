"""What an exercise's file says of itself: its blanks, examples to try them on, laws and mistakes.

    sheet = Sheet()

    @sheet.blank("A first hint.", "A second one, which says more.")
    def double(x: Tensor) -> Tensor:
        \"\"\"x of any shape -> twice x.\"\"\"
        return 2 * x

    @sheet.cases(double)
    def _numbers() -> Iterator[Arguments]:
        yield {"x": torch.tensor([3.0])}

    @sheet.mistake(double, "you square: 2x is asked for")
    def _squared(x: Tensor) -> Tensor:
        return x * x

The function that is blank for learners is the solution here, and the oracle of the check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Arguments = Mapping[str, Any]
"""An example: the arguments of one call by their names. Learners are shown it where it fails."""
SECONDS = 10.0
"""That all examples of a blank may take together; they take milliseconds."""


class ComplaintError(Exception):
    """Raised by ``use`` where what a learner wrote cannot be tried; its message is told."""


class Mistake(NamedTuple):
    """A wrong solution that people write, and what they are told."""

    message: str
    wrong: Callable[..., Any]


@dataclass(slots=True)
class Part:
    """One blank: a function or a class that a learner writes."""

    name: str
    solution: Callable[..., Any]
    seconds: float
    compared: bool
    """Whether the result must be the solution's; else the laws alone judge."""
    cases: Callable[[], Iterable[Arguments]] = tuple
    """Examples, the smallest first."""
    use: Callable[..., Any] = lambda thing, **arguments: thing(**arguments)
    """(what was written, arguments) -> result; a class is built and called here."""
    mistakes: list[Mistake] = field(default_factory=list)
    laws: list[Callable[..., str | None]] = field(default_factory=list)
    """(result, arguments) -> what is wrong, or None."""


class Sheet:
    """The parts of an exercise, in the order of its file."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    def blank(
        self,
        *hints: str,
        keep: tuple[str, ...] = (),
        seconds: float = SECONDS,
        compared: bool = True,
    ) -> Callable[[F], F]:
        """A function or class that learners write. ``keep`` names methods that they are given.

        Hints and ``keep`` are read from the file (``handout.py``), so they must be literals.
        """

        def enter(solution: F) -> F:
            name = solution.__name__
            self.parts[name] = Part(name, solution, seconds, compared)
            return solution

        return enter

    def given(self, thing: F) -> F:
        """A function or class that learners are given whole."""
        return thing

    def cases(self, solution: Callable[..., Any]) -> Callable[[F], F]:
        """Gives the examples of a blank, the smallest first."""

        def enter(cases: F) -> F:
            self.parts[solution.__name__].cases = cases
            return cases

        return enter

    def use(self, solution: Callable[..., Any]) -> Callable[[F], F]:
        """How a blank is tried where it is not simply called with an example's arguments."""

        def enter(use: F) -> F:
            self.parts[solution.__name__].use = use
            return use

        return enter

    def mistake(self, solution: Callable[..., Any], message: str) -> Callable[[F], F]:
        """A wrong form of a blank; whoever's results are the same is told the message."""

        def enter(wrong: F) -> F:
            self.parts[solution.__name__].mistakes.append(Mistake(message, wrong))
            return wrong

        return enter

    def law(self, solution: Callable[..., Any]) -> Callable[[F], F]:
        """What holds for every right result; told where no mistake is recognised."""

        def enter(law: F) -> F:
            self.parts[solution.__name__].laws.append(law)
            return law

        return enter
