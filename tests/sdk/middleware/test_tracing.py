"""OpenTelemetry surrounds middleware and dependencies: they run inside the span of their job."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, get_current_span

from tests.sdk.worker import isolated_with_dependencies
from tests.support import real_time
from worker_sdk import Context, Depends, Middleware, Worker, make_job, tracing
from worker_sdk.testing import WorkerHarness

pytestmark = [real_time.WORKER, pytest.mark.req("S7")]


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.instrument(provider)
    yield exporter
    tracing.uninstrument()
    provider.shutdown()


def span_id() -> str:
    """Return the ID of the current span."""
    return f"{get_current_span().get_span_context().span_id:016x}"


class Spans(Middleware):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def around_job(self, ctx: Context) -> Iterator[None]:
        self.seen.append(span_id())
        yield

    def around_enqueue(self, job: dict[str, Any]) -> Iterator[None]:
        assert "traceparent" in job["headers"]
        yield


async def test_middleware_and_dependencies_run_inside_the_span_of_the_job(
    spans: InMemorySpanExporter,
) -> None:
    middleware = Spans()
    worker = Worker(middleware=[middleware])

    @worker.handler("sync")
    def sync(argument: Any, ctx: Context, span: str = Depends(span_id)) -> list[str]:
        ctx.enqueue("other")
        return [span, span_id()]

    @worker.handler("async")
    async def run(argument: Any, span: str = Depends(span_id)) -> list[str]:
        if argument == "fail":
            raise LookupError("no such thing")
        return [span, span_id()]

    worker.handler("isolated", isolated=True)(isolated_with_dependencies.plain)
    harness = WorkerHarness(worker)
    headers = make_job("x")["headers"]
    for name in ("sync", "async"):
        seen = {*(await harness.run(name, headers=headers)).result, middleware.seen[-1]}
        (span,) = [one for one in spans.get_finished_spans() if one.name == f"process {name}"]
        assert span.context is not None
        assert seen == {f"{span.context.span_id:016x}"}
        assert f"{span.context.trace_id:032x}" == headers["traceparent"].split("-")[1]
    await harness.run("isolated", 1)
    (span,) = [one for one in spans.get_finished_spans() if one.name == "process isolated"]
    assert span.context is not None
    assert middleware.seen[-1] == f"{span.context.span_id:016x}"
    spans.clear()
    await harness.run("async", "fail")
    assert [one.status.status_code for one in spans.get_finished_spans()] == [StatusCode.ERROR]
