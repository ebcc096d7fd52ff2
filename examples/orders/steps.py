"""The steps of an order, and the worker that runs them: `jqmaster worker examples.orders.steps:worker`.

`ORDERS_OUTSIDE` is the address of the other systems, `ORDERS_ANSWER_S` the time to wait for a callback.
"""

import os
from typing import Any, Final

import httpx

from worker_sdk import (
    Approval,
    Callback,
    Choice,
    CodedError,
    Context,
    Defer,
    Form,
    FormAnswer,
    HttpOk,
    OutsideWork,
    Ready,
    Worker,
    ready_when,
)

OUTSIDE: Final = os.environ.get("ORDERS_OUTSIDE", "http://127.0.0.1:8090")
ANSWER_WITHIN_S: Final = float(os.environ.get("ORDERS_ANSWER_S", "20"))
CALL_TIMEOUT_S: Final = 2.0

_clients: list[httpx.AsyncClient] = []


class Step(OutsideWork):
    """A step that another system carries out."""

    answer_within_s = ANSWER_WITHIN_S
    prepare_timeout_s = 5.0
    challenge_timeout_s = 10.0
    max_wait_s = 5.0
    not_ready_for_s = 3_600.0
    path: str

    async def prepare(self, argument: dict[str, int], ctx: Context) -> Ready | Defer:
        """Wait while the other system has too much to do."""
        return await ready_when(ctx, HttpOk(f"{OUTSIDE}/{self.path}/room", after_s=1.0))

    async def challenge(self, argument: dict[str, int], ctx: Context) -> None:
        """Hand the order over. The key makes a repeated call safe: the order is processed only once."""
        opened = await ctx.open_challenge(meta=argument)
        body = {"order": argument["order"], "callback_url": opened.callback_url}
        headers = {"Idempotency-Key": ctx.idempotency_key}
        try:
            answer = await client().post(f"{OUTSIDE}/{self.path}", json=body, headers=headers)
        except httpx.HTTPError as error:
            raise CodedError("NETWORK_ERROR", f"{self.path}: {error or type(error).__name__}") from None
        if answer.is_error:
            raise CodedError(answer.json()["code"], f"{self.path} answers {answer.status_code}")

    async def on_callback(self, callback: Callback, ctx: Context) -> str:
        """Return the receipt, or fail with the code of the other system."""
        answer = callback.json()
        if code := answer.get("error"):
            raise CodedError(code, f"{self.path} could not do it")
        return str(answer["receipt"])


class TakeOrder(Step):
    name = "order.take"
    path = "order"


class SendStock(Step):
    name = "order.stock"
    path = "stock"


class Ship(Step):
    name = "order.ship"
    path = "shipping"


class Approve(Approval):
    """A person approves an expensive order before it is shipped."""

    name = "order.approve"
    answer_within_s = 86_400.0

    def form(self, argument: dict[str, int], ctx: Context) -> Form:
        return Form(
            f"Ship order {argument['order']}?",
            description="It is dear.",
            choices=[Choice("approve"), Choice("reject", needs_comment=True, skips_fields=True)],
            fields={"type": "object", "properties": {"insured": {"type": "boolean", "title": "Insured"}}},
        )

    async def ask(self, argument: dict[str, int], ctx: Context, url: str) -> None:
        """Put the question on the clerk's desk. For each order, the newest address counts."""
        try:
            answer = await client().put(f"{OUTSIDE}/desk/{argument['order']}", json={"url": url})
        except httpx.HTTPError as error:
            raise CodedError("NETWORK_ERROR", f"desk: {error or type(error).__name__}") from None
        if answer.is_error:
            raise CodedError("TEMPORARY_UNAVAILABLE", f"desk answers {answer.status_code}")

    async def on_answer(self, answer: FormAnswer, ctx: Context) -> Any:
        """Continue with the order, or end it."""
        if not answer.is_approved:
            raise CodedError("REJECTED", answer.comment)
        return {"insured": answer.values.get("insured", False), "by": answer.by}


def client() -> httpx.AsyncClient:
    """Return the HTTP client of this process."""
    if not _clients:
        _clients.append(httpx.AsyncClient(timeout=CALL_TIMEOUT_S, trust_env=False))
    return _clients[0]


worker = Worker(max_jobs=32)
for work in (TakeOrder(), SendStock(), Ship(), Approve()):
    worker.outside(work)
