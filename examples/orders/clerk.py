"""The clerk: a person who answers what lies on the desk, on the page of each question, as a browser would."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

# Some expensive orders are rejected.
REJECTED_EACH: Final = 20
BROWSER: Final = {"Accept": "text/html", "Accept-Language": "en"}
LOOK_S: Final = 0.5
# These statuses of a page say that its question is over, whoever answered it: it is gone from the desk.
OVER: Final = frozenset({404, 409, 410})


@dataclass
class Clerk:
    """`answers`: how often each choice was recorded, and how often a question was over."""

    desk_url: str
    client: httpx.AsyncClient
    answers: Counter[str] = field(default_factory=Counter)

    async def work(self) -> None:
        """Answer until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            # The desk, or the master of a page, may be unreachable: the next look finds the same.
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
                # It was answered before: the response to the form was lost.
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
    """Return the form as a browser sends it."""
    if order % REJECTED_EACH == 0:
        return {"choice": "reject", "comment": "too dear for us"}
    return {"choice": "approve", "comment": "", "value.insured": "1"}
