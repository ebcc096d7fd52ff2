"""Outside work that runs in its own processes, as in an application's module."""

from typing import Any

from worker_sdk import Approval, Callback, Context, Form, FormAnswer, OutsideWork, Worker

worker = Worker("http://127.0.0.1:1")


class Isolated(OutsideWork):
    name = "isolated.ship"
    answer_within_s = 60.0

    def challenge(self, argument: Any, ctx: Context) -> None:
        opened = ctx.open_challenge(expect=2)
        ctx.progress(0.5, opened.callback_url)

    def on_callback(self, callback: Callback, ctx: Context) -> Any:
        return [one.text() for one in ctx.callbacks]


worker.outside(Isolated(), isolated=True)


class Approved(Approval):
    name = "isolated.approve"

    def form(self, argument: Any, ctx: Context) -> Form:
        return Form("Go on?")

    def on_answer(self, answer: FormAnswer, ctx: Context) -> Any:
        return answer.choice


worker.outside(Approved(), isolated=True)
