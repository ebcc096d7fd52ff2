"""The whole kit for masters."""

from collections.abc import Callable, Sequence
from typing import Final

from jqmaster.conformance import master_claims, master_http, master_pushes
from jqmaster.conformance.master_under_test import MasterUnderTest
from jqmaster.conformance.questions import Question, Result, ask_all, select_questions

QUESTIONS: Final[tuple[Question[MasterUnderTest], ...]] = tuple(
    question
    for topic in (master_http.TOPIC, master_pushes.TOPIC, master_claims.TOPIC)
    for question in topic.all
)


async def ask_master(
    url: str, *, token: str | None, only: Sequence[str], told: Callable[[Result], None]
) -> list[Result]:
    """Ask the master at `url`. Raises OSError if nothing listens at this address."""
    master = MasterUnderTest(url, token)
    await master.send("GET", "/healthz")
    return await ask_all(master, select_questions(QUESTIONS, None, only), after_each=master.clean, told=told)
