# Shows: Approval, Form, Choice, FormAnswer
import asyncio
from typing import Any

from worker_sdk import Approval, Choice, CodedError, Context, Form, FormAnswer, Worker
from worker_sdk.testing import WorkerHarness

worker = Worker()
letters: list[str] = []


class Refund(Approval):
    name = "order.refund"
    audience = "users"

    def form(self, argument: int, ctx: Context) -> Form:
        return Form(
            f"Refund order {argument}?",
            choices=[Choice("approve"), Choice("reject", needs_comment=True, skips_fields=True)],
            fields={"type": "object", "properties": {"amount": {"type": "number", "minimum": 0}}},
        )

    def ask(self, argument: int, ctx: Context, url: str) -> None:
        letters.append(f"please decide: {url}")

    def on_answer(self, answer: FormAnswer, ctx: Context) -> Any:
        if not answer.is_approved:
            raise CodedError("REJECTED", answer.comment)
        return answer.values["amount"]


worker.outside(Refund())


async def main() -> None:
    harness = WorkerHarness(worker)
    asked = await harness.run("order.refund", 7)
    assert asked.challenge is not None and asked.challenge["form"]["title"] == "Refund order 7?"
    yes = FormAnswer("approve", values={"amount": 12.5}, by="user:ada")
    assert (await harness.run("order.refund", 7, callback=yes)).result == 12.5
    no = await harness.run("order.refund", 7, callback=FormAnswer("reject", comment="too late"))
    assert (no.type, no.fields["code"], len(letters)) == ("failure", "REJECTED", 1)


asyncio.run(main())
