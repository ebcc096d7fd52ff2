"""Jobs that a person decides."""

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from worker_sdk.forms import Form, FormAnswer
from worker_sdk.outside import OutsideWork, Phase

if TYPE_CHECKING:
    from worker_sdk.worker.challenge import Callback
    from worker_sdk.worker.context import Context


class Approval(OutsideWork):
    """Jobs that a person decides. Derive a class, and add it to a worker with `worker.outside(…)`. The methods are
    `def` or `async def`.

    * `audience`: who may answer. `"link"`: everyone who has the address. `"users"`: only people who are logged in at
      the master with the right to operate.
    * `remind_after_s`: seconds without an answer after which the notice `challenge_waiting` reports the job. 0: at
      once. None: never.
    * `name`, `answer_within_s`, `retry_codes` and the other attributes: as in `OutsideWork`.

    For example:

        class Refund(Approval):
            name = "refund.approve"

            def form(self, argument: int, ctx: Context) -> Form:
                return Form(f"Refund order {argument}?")

            def ask(self, argument: int, ctx: Context, url: str) -> None:
                print(f"please answer at {url}")

            def on_answer(self, answer: FormAnswer, ctx: Context) -> bool:
                return answer.is_approved
    """

    audience: ClassVar[Literal["link", "users"]] = "link"
    remind_after_s: ClassVar[float | None] = None

    def form(self, argument: Any, ctx: "Context") -> Any:
        """Return the `Form` that people see.

        * `argument`, `ctx`: as for a handler.
        """
        raise NotImplementedError

    def ask(self, argument: Any, ctx: "Context", url: str) -> Any:
        """Send people the address of the page, for example by mail or chat. The default does nothing.

        * `argument`, `ctx`: as for a handler.
        * `url`: address of the page. It is a secret if the audience is `"link"`.
        """

    def on_answer(self, answer: FormAnswer, ctx: "Context") -> Any:
        """Decide the outcome of the job from the answer. Return the result of the job, or raise as in any handler.

        * `answer`: the first answer; `ctx.callbacks` has all answers.
        * `ctx`: as for a handler.
        """
        raise NotImplementedError

    def challenge(self, argument: Any, ctx: "Context") -> Any:
        """Open the challenge with the form, and tell people.

        * `argument`, `ctx`: as for a handler.

        For example:

            class Refund(Approval):
                name = "refund.approve"

                def challenge(self, argument: int, ctx: Context) -> None:
                    ctx.logger.info("asking about %s", argument)
                    super().challenge(argument, ctx)
        """
        if any(map(inspect.iscoroutinefunction, self._phases())):
            return self._challenge(argument, ctx)
        self.ask(argument, ctx, self._open(self.form(argument, ctx), ctx).callback_url)
        return None

    def on_callback(self, callback: "Callback", ctx: "Context") -> Any:
        """Pass the answer to `on_answer`, and return its result.

        * `callback`: the callback that holds the answer.
        * `ctx`: as for a handler.

        For example:

            class Refund(Approval):
                name = "refund.approve"

                def on_callback(self, callback: Callback, ctx: Context) -> bool:
                    ctx.logger.info("answered at %s", callback.received_at)
                    return bool(super().on_callback(callback, ctx))
        """
        return self.on_answer(callback.answer(), ctx)

    async def _challenge(self, argument: Any, ctx: "Context") -> None:
        form = self.form(argument, ctx)
        opened = await self._open(await form if inspect.isawaitable(form) else form, ctx)
        told = self.ask(argument, ctx, opened.callback_url)
        if inspect.isawaitable(told):
            await told

    def _open(self, form: Form, ctx: "Context") -> Any:
        return ctx.open_challenge(form=form, audience=self.audience, remind_after_s=self.remind_after_s)

    def _phases(self) -> tuple[Phase, ...]:
        return (*super()._phases(), self.form, self.ask, self.on_answer)
