"""The receiver of a chaos run's webhooks: it takes most of them, fails at some, and keeps what it receives."""

import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import Delivery
from tests.support.webhook_receiver import SECRET, Answer, Receiver, serving

# The shares of calls that it rejects.
FAILS: Final = 0.15
ASKS_TO_WAIT: Final = 0.05
MAX_FAILURES: Final = 2


@dataclass(slots=True)
class Hooks:
    """`url` receives the jobs' webhooks."""

    receiver: Receiver
    answers: list[tuple[float, int]]

    @property
    def url(self) -> str:
        return self.receiver.url

    def deliveries(self) -> list[Delivery]:
        """Return the received webhooks and their answers."""
        return [
            Delivery(
                at_s,
                str(one.message["data"]["job_id"]),
                one.fields.get("webhook-id", ""),
                str(one.message["data"]["state"]),
                status,
                one.is_signed_with(SECRET),
            )
            for one, (at_s, status) in zip(self.receiver.received, self.answers, strict=False)
        ]


@contextlib.asynccontextmanager
async def hooks(seed: int) -> AsyncIterator[Hooks]:
    rng, answers, calls = random.Random(f"{seed}:hooks"), list[tuple[float, int]](), Counter[str]()

    def answer(number: int) -> Answer:
        webhook_id = receiver.received[number].fields["webhook-id"]
        calls[webhook_id] += 1
        # The run would end before a later repeat.
        drawn = rng.random() if calls[webhook_id] <= MAX_FAILURES else 1.0
        if drawn < FAILS:
            said = Answer(500)
        elif drawn < FAILS + ASKS_TO_WAIT:
            said = Answer(503, (("Retry-After", "1"),))
        else:
            said = Answer()
        answers.append((time.monotonic(), said.status))
        return said

    async with serving(answer) as receiver:
        yield Hooks(receiver, answers)
