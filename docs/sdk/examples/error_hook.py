# Shows: ErrorHook, IsolatedHandlerError, Sentry
from worker_sdk import Context, IsolatedHandlerError, Tasks, Worker
from worker_sdk.middleware import ErrorHook, Sentry
from worker_sdk.testing import inline

reports: list[str] = []


def report(exc: BaseException, ctx: Context) -> None:
    if isinstance(exc, IsolatedHandlerError):  # the exception itself stayed in the handler's process
        reports.append(f"{ctx.name}: {exc.fields['message']}")
    else:
        reports.append(f"{ctx.name}: {exc}")


tasks = Tasks()


@tasks.task("order.pay", max_retry=0)
def pay(order: int) -> None:
    if order < 0:
        raise KeyError(order)
    raise ValueError("the card has expired")


# `Sentry` sends exceptions to Sentry: call sentry_sdk.init() before.
worker = Worker(tasks=tasks, middleware=[ErrorHook(report, ignore=(KeyError,)), Sentry()])
with inline(worker=worker, raises=False):
    pay.enqueue(-1)
    pay.enqueue(7)
assert reports == ["order.pay: the card has expired"]
