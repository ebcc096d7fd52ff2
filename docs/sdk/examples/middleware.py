# Shows: Middleware, EnqueueMiddleware, EnqueueRefused
from collections.abc import Iterator
from typing import Any

from worker_sdk import Context, EnqueueRefused, Middleware, Tasks, Worker, configure
from worker_sdk.enqueueing import EnqueueMiddleware
from worker_sdk.testing import inline, recording

calls: list[str] = []


class Traced(Middleware):  # around handlers, and around calls that enqueue
    def around_job(self, ctx: Context) -> Iterator[None]:
        calls.append(f"before {ctx.name}")
        try:
            yield
        finally:
            calls.append(f"after {ctx.name}")


class Polite(EnqueueMiddleware):  # around calls that enqueue alone
    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        if job.get("priority", 0) < -10:
            raise EnqueueRefused("priorities below -10 are for operators")
        job["headers"] = {"tenant": "acme"}
        yield


tasks = Tasks()


@tasks.task("feed.add")
def add(url: str) -> None:
    calls.append(url)


worker = Worker(tasks=tasks, middleware=[Traced()])
configure(middleware=[Polite()])
with inline(worker=worker) as jobs:
    add.enqueue("https://example.com")
assert calls == ["before feed.add", "https://example.com", "after feed.add"]
assert jobs[0]["headers"] == {"tenant": "acme"}
with recording():
    try:
        add.using(priority=-11).enqueue("https://example.com")
    except EnqueueRefused as refused:
        assert "operators" in str(refused)
