"""The clerk: a person who answers the questions on a desk. He uses the page of each question, as with a browser."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

# One in this many expensive orders is rejected.
REJECTED_EACH: Final = 20
BROWSER: Final = {"Accept": "text/html", "Accept-Language": "en"}
LOOK_S: Final = 0.5
# Statuses of the page of a question that is over. The question is then removed from the desk.
OVER: Final = frozenset({404, 409, 410})


@dataclass
class Clerk:
    """Answers questions. `answers`: how often each choice was recorded, and how often a question was already over."""

    desk_url: str
    client: httpx.AsyncClient
    answers: Counter[str] = field(default_factory=Counter)

    async def work(self) -> None:
        """Answer questions until this task is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            # If the desk, or the master of a page, cannot be reached, leave the questions for the next round.
            with contextlib.suppress(httpx.HTTPError):
                for order, url in (await self.client.get(self.desk_url)).json()["questions"].items():
                    await self.decide(int(order), url)

    async def decide(self, order: int, url: str) -> None:
        """Open a page, fill in the form, and send it. Raise httpx.HTTPError if no master answers."""
        page = await self.client.get(url, headers=BROWSER)
        if page.status_code not in OVER:
            if page.status_code != 200 or f"Ship order {order}?" not in page.text:
                return
            if "<form" not in page.text:
                # The form was answered before, but the response to it was lost.
                await self._clear(order, url, "answered before")
                return
            sent = await self.client.post(url, data=_answer(order), headers=BROWSER)
            if sent.status_code == 303:
                await self._clear(order, url, _answer(order)["choice"])
                return
            if sent.status_code not in OVER:
                return
        await self._clear(order, url, "over")

    async def _clear(self, order: int, url: str, what: str) -> None:
        self.answers[what] += 1
        await self.client.delete(f"{self.desk_url}/{order}", params={"url": url})


def _answer(order: int) -> dict[str, Any]:
    """Return the fields of the form that a browser would send."""
    if order % REJECTED_EACH == 0:
        return {"choice": "reject", "comment": "too dear for us"}
    return {"choice": "approve", "comment": "", "value.insured": "1"}
