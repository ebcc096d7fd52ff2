"""Questions, their collections, and their results."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

SubjectT = TypeVar("SubjectT")

# The time limit of a question. Most take a fraction of a second.
_DEADLINE_S: Final = 60.0


class FailedError(Exception):
    """The subject does not meet a requirement. The text describes its actual behaviour."""


class SkippedError(Exception):
    """The question cannot be asked here; the text says why."""


class WorkerMode(StrEnum):
    """The way in which a worker gets its jobs."""

    PUSH = "push"
    PULL = "pull"


class QuestionOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Question(Generic[SubjectT]):
    """One question.

    * `id`: stays the same over releases.
    * `text`: the fact that must be true.
    * `is_timed`: the question waits for leases, pauses or several heartbeats, or measures a duration.
    """

    id: str
    text: str
    ask: Callable[[SubjectT], Awaitable[None]]
    modes: frozenset[WorkerMode]
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    id: str
    text: str
    outcome: QuestionOutcome
    detail: str
    seconds: float

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "text": self.text,
            "outcome": str(self.outcome),
            "detail": self.detail,
            "seconds": round(self.seconds, 3),
        }


class Questions(Generic[SubjectT]):
    """The questions of one topic, in the order in which they are written."""

    def __init__(self, topic: str, *modes: WorkerMode) -> None:
        self._topic = topic
        self._modes = frozenset(modes or WorkerMode)
        self.all: list[Question[SubjectT]] = []

    def question(
        self, name: str, text: str, *modes: WorkerMode, is_timed: bool = False
    ) -> Callable[[Callable[[SubjectT], Awaitable[None]]], Callable[[SubjectT], Awaitable[None]]]:
        def add(ask: Callable[[SubjectT], Awaitable[None]]) -> Callable[[SubjectT], Awaitable[None]]:
            self.all.append(
                Question(
                    f"{self._topic}.{name}", text, ask, frozenset(modes) if modes else self._modes, is_timed
                )
            )
            return ask

        return add


def expect(is_so: object, otherwise: str) -> None:
    """Raise FailedError with the text `otherwise` if `is_so` is false."""
    if not is_so:
        raise FailedError(otherwise)


async def until(is_so: Callable[[], object], otherwise: str, timeout_s: float = 20.0) -> None:
    """Return as soon as `is_so` is true. Raises FailedError with the text `otherwise` after `timeout_s`."""
    ends_s = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > ends_s:
            raise FailedError(f"{otherwise} (within {timeout_s:g} s)")
        await asyncio.sleep(0.01)


async def remains(is_so: Callable[[], object], otherwise: str, seconds: float) -> None:
    """Return after `seconds` if `is_so` stays true during this time. Raises FailedError as soon as it is false."""
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        expect(is_so(), otherwise)
        await asyncio.sleep(0.01)


async def ask_all(
    subject: SubjectT,
    questions: Sequence[Question[SubjectT]],
    *,
    after_each: Callable[[], Awaitable[None]],
    told: Callable[[Result], None],
) -> list[Result]:
    """Ask the questions one by one. `told` gets each result as soon as it is known."""
    results = []
    for question in questions:
        began_s = time.monotonic()
        outcome, detail = QuestionOutcome.PASSED, ""
        try:
            async with asyncio.timeout(_DEADLINE_S):
                await question.ask(subject)
        except SkippedError as exc:
            outcome, detail = QuestionOutcome.SKIPPED, str(exc)
        except FailedError as exc:
            outcome, detail = QuestionOutcome.FAILED, str(exc)
        except TimeoutError:
            outcome, detail = QuestionOutcome.FAILED, f"no end within {_DEADLINE_S:g} s"
        except (OSError, ValueError, EOFError, KeyError, TypeError) as exc:
            outcome, detail = QuestionOutcome.FAILED, f"{type(exc).__name__}: {exc}"[:300]
        result = Result(question.id, question.text, outcome, detail, time.monotonic() - began_s)
        results.append(result)
        told(result)
        await after_each()
    return results


def select_questions(
    questions: Iterable[Question[SubjectT]],
    mode: WorkerMode | None,
    only: Sequence[str],
    *,
    is_quick: bool = False,
) -> list[Question[SubjectT]]:
    """Return the questions of this mode with an ID that begins with one of `only`. If `only` is empty, return all
    questions of this mode. `is_quick` leaves out timed questions."""
    return [
        question
        for question in questions
        if (mode is None or mode in question.modes)
        and not (is_quick and question.is_timed)
        and (not only or any(question.id.startswith(prefix) for prefix in only))
    ]
