"""Judges what a learner wrote, a blank at a time.

Each blank is tried on its examples while the other blanks are the solution's, so that one mistake
is told once. Where a result is not right, it is compared with those of the mistakes that people
make; where none of them explains every example, with the laws; then the difference is told.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from regard.core.plain import plain_line
from regard.practice.comparing import copied, difference, shown
from regard.practice.findings import LONGEST, Finding, State
from regard.practice.sheet import Arguments, ComplaintError, Part, Sheet
from regard.practice.submission import Code

Namespace = dict[str, Any]
"""The names of a learner's file."""

NO_GRADIENT = (
    "your result carries no gradient: it was made by .detach(), .item(), .tolist(), numpy or "
    "torch.tensor, so nothing could be learned through it"
)
CHANGED = "you change an argument in place: whoever called still needs it"
NOTHING = "you return nothing: is there a return?"
NO_MEMORY = "it takes more memory than a check may have"


class LateError(BaseException):
    """A blank took too long. No Exception, so that a learner's ``except`` does not catch it."""


class _Faulty(NamedTuple):
    """An example on which a learner's result is not right."""

    arguments: Arguments
    wanted: Any
    got: Any
    problem: str


def judge(
    sheet: Sheet,
    namespace: Namespace,
    codes: Sequence[Code],
    begin: Callable[[str], None] = lambda name: None,
) -> Iterator[Finding]:
    """A finding for each part; ``begin`` is told the name of a part before it is tried."""
    written = {name: namespace.get(name) for name in sheet.parts}
    for name, part in sheet.parts.items():
        begin(name)
        namespace |= {other: sheet.parts[other].solution for other in sheet.parts}
        if written[name] is None:
            yield Finding(name, State.BROKEN, f"there is no {name} in your file")
            continue
        namespace[name] = written[name]
        yield judge_part(part, written[name], codes)


def judge_part(part: Part, thing: Any, codes: Sequence[Code]) -> Finding:
    """Try what a learner wrote on all examples of a part."""
    if not callable(thing):
        return Finding(part.name, State.BROKEN, f"{part.name} is no function")
    arguments: Arguments = {}
    results: list[tuple[Arguments, Any]] = []
    stopped: BaseException | None = None
    try:
        with within(part.seconds):
            for arguments in part.cases():
                results.append((arguments, _result(part, thing, arguments)))
    except BaseException as error:  # whatever a learner's code may raise, sys.exit among it
        stopped = error
    try:
        with within(part.seconds):  # here it runs again, and may raise something else
            if stopped is None or _first_faulty(part, results):
                return _judged(part, thing, results)
    except BaseException as error:
        stopped = error
    return _stopped(part, stopped, codes, arguments)


def _judged(part: Part, thing: Any, results: Sequence[tuple[Arguments, Any]]) -> Finding:
    faulty = _first_faulty(part, results)
    if faulty is None:
        problem = _hidden_fault(part, thing, results[0][0]) if part.compared else None
        state = State.WRONG if problem else State.PASSED
        return Finding(part.name, state, problem or "")
    return Finding(
        part.name,
        State.WRONG,
        _diagnosis(part, results, faulty),
        example=_example(faulty.arguments),
        yours=shown(faulty.got)[:LONGEST],
        right=shown(faulty.wanted)[:LONGEST] if part.compared else "",
    )


def _first_faulty(part: Part, results: Sequence[tuple[Arguments, Any]]) -> _Faulty | None:
    for arguments, got in results:
        if not part.compared:
            if problem := _broken_law(part, got, arguments):
                return _Faulty(arguments, None, got, problem)
            continue
        wanted = _result(part, part.solution, arguments)
        problem = NOTHING if got is None and wanted is not None else difference(wanted, got)
        if problem:
            return _Faulty(arguments, wanted, got, problem)
    return None


def _result(part: Part, thing: Any, arguments: Arguments) -> Any:
    torch.manual_seed(0)
    return part.use(thing, **copied(arguments))


def _diagnosis(part: Part, results: Sequence[tuple[Arguments, Any]], faulty: _Faulty) -> str:
    """The mistake that explains every example, else a law that is broken, else the difference."""
    for message, wrong in part.mistakes:
        if all(_same(part, wrong, arguments, got) for arguments, got in results):
            return message
    if faulty.problem == NOTHING:
        return NOTHING
    return _broken_law(part, faulty.got, faulty.arguments) or faulty.problem


def _same(part: Part, wrong: Callable[..., Any], arguments: Arguments, got: Any) -> bool:
    """Whether a mistake gives a learner's result; where it breaks down, it does not."""
    try:
        return difference(_result(part, wrong, arguments), got) is None
    except (RuntimeError, ValueError, LookupError, TypeError, ArithmeticError):
        return False


def _broken_law(part: Part, got: Any, arguments: Arguments) -> str | None:
    for law in part.laws:
        try:
            problem = law(got, **arguments)
        except (RuntimeError, ValueError, LookupError, TypeError, AttributeError):
            continue  # a result of another kind or shape, of which the law says nothing
        if problem:
            return problem
    return None


# ------------------------------------------------------------------ what numbers do not show


def _hidden_fault(part: Part, thing: Any, arguments: Arguments) -> str | None:
    """A fault of a function whose numbers are right: arguments changed, or gradients lost."""
    given = copied(arguments)
    part.use(thing, **given)
    for name, value in arguments.items():
        comparable = difference(value, copied(arguments)[name]) is None
        if comparable and difference(value, given[name]):
            return CHANGED
    if _carries_gradient(part, part.solution, arguments):
        return None if _carries_gradient(part, thing, arguments) else NO_GRADIENT
    return None


def _carries_gradient(part: Part, thing: Any, arguments: Arguments) -> bool:
    """Whether a result depends on the tensors of an example in a way that can be learned."""
    given = copied(arguments)
    for one in given.values():
        if isinstance(one, Tensor) and one.is_floating_point():
            one.requires_grad_()
    try:
        result = part.use(thing, **given)
    except RuntimeError:  # such as .numpy() of what requires a gradient
        return False
    return isinstance(result, Tensor) and result.requires_grad


# ------------------------------------------------------------------ errors and time


def _stopped(
    part: Part, error: BaseException, codes: Sequence[Code], arguments: Arguments
) -> Finding:
    """The finding where a learner's code did not return."""
    if isinstance(error, NotImplementedError) and not str(error):
        return Finding(part.name, State.BLANK, "not written yet")
    late = f"it did not end within {part.seconds:g} s"
    return Finding(
        part.name,
        State.BROKEN,
        late if isinstance(error, LateError) else told_error(error),
        where=where_raised(error, codes),
        example=_example(arguments),
    )


def told_error(error: BaseException) -> str:
    """What a learner's code raised, in a line."""
    if isinstance(error, ComplaintError):
        return str(error)
    if isinstance(error, SystemExit):
        return "your code ends the program (exit): let it return instead"
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return NO_MEMORY
    if isinstance(error, RecursionError):
        return "your code calls itself without end (RecursionError)"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return plain_line(f"{type(error).__name__}: {error}").removesuffix(":")


def where_raised(error: BaseException, codes: Sequence[Code]) -> str:
    """The last line of the learner's own code on the way to an error, with its text."""
    by_label = {code.label: code for code in codes}
    if isinstance(error, SyntaxError) and error.filename in by_label:
        lines = [(error.filename, error.lineno or 0)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [(one.filename, one.lineno or 0) for one in frames if one.filename in by_label]
    if not lines:
        return ""
    label, number = lines[-1]
    return f"{label}, line {number}: {by_label[label].line(number)}"


def _example(arguments: Mapping[str, Any]) -> dict[str, str]:
    return {name: shown(value)[:LONGEST] for name, value in arguments.items()}


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Inside the block, time is bounded: a LateError is raised in the code that runs too long."""

    def late(_number: int, _frame: object) -> NoReturn:
        raise LateError

    before = signal.signal(signal.SIGALRM, late)
    # Again and again: a learner's bare except may have caught the first.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
