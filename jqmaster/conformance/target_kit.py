"""The whole kit for HTTP endpoints that do jobs as targets."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from jqmaster.conformance import target_jobs, target_signatures
from jqmaster.conformance.questions import Question, QuestionOutcome, Result, ask_all, select_questions
from jqmaster.conformance.target_under_test import TargetUnderTest, signature_of

QUESTIONS: Final[tuple[Question[TargetUnderTest], ...]] = tuple(
    question for topic in (target_jobs.TOPIC, target_signatures.TOPIC) for question in topic.all
)


async def ask_target(
    url: str,
    *,
    name: str,
    argument: Any,
    secret: str | None,
    has_envelope: bool = False,
    method: str = "POST",
    callback_host: str = "127.0.0.1",
    only: Sequence[str] = (),
    told: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Ask the endpoint at `url`. Raises OSError if nothing listens at this address, and ValueError for an invalid
    secret."""
    if secret is not None:
        signature_of(secret, "", 0, b"")
    target = TargetUnderTest(
        url, name=name, argument=argument, secret=secret, has_envelope=has_envelope, method=method
    )
    connection, _ = await target.connect()
    await connection.close()
    await target.start(callback_host)
    try:
        results = await ask_all(
            target, select_questions(QUESTIONS, None, only), after_each=_nothing, told=told
        )
    finally:
        await target.stop()
    faults = Result(
        "answers.form",
        "masters understood every answer: no redirect, valid JSON if the type is JSON, a valid Retry-After",
        QuestionOutcome.FAILED if target.faults else QuestionOutcome.PASSED,
        "; ".join(target.faults)[:1000],
        0.0,
    )
    told(faults)
    return [*results, faults]


async def _nothing() -> None:
    """Do nothing after a question, because it leaves nothing at the endpoint that affects the next one."""
