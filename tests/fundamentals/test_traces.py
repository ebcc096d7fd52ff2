"""One trace goes from the pusher through the master to the handler, and on to the handler's own jobs; without it, there
are no spans."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.support import real_time
from tests.support.master import Api, master_on
from tests.support.server import StoreServer
from worker_sdk import Context, Pusher, Worker, tracing

pytestmark = real_time.MASTER


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """The spans that pusher and worker report, which are one process here."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.instrument(provider)
    yield exporter
    tracing.uninstrument()
    provider.shutdown()


class Collector:
    """Receives OTLP over HTTP, as an OpenTelemetry collector does."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        outer = self

        class Receive(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    import gzip

                    body = gzip.decompress(body)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        outer.spans += scope.spans
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Receive)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.close()


async def test_one_trace_leads_from_the_pusher_to_the_handler_and_to_what_it_pushes(
    store_server: StoreServer, spans: InMemorySpanExporter, collector: Collector
) -> None:
    ran: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    async with master_on(store_server.url, traces_endpoint=collector.url) as (master, api):
        worker = Worker(master.server.url)

        @worker.handler("first")
        async def first(argument: Any, ctx: Context) -> None:
            await ctx.enqueue("second")
            ran.put_nowait(("first", ctx.headers["traceparent"]))

        @worker.handler("second")
        def second(argument: Any, ctx: Context) -> None:
            raise ValueError("no card-4711-SECRET")

        async with worker.running(), Pusher(master.server.url) as pusher:
            job_id = await pusher.enqueue("first", max_retry=0)
            await asyncio.wait_for(ran.get(), 30)
            await api.until_state(job_id, "succeeded")
            second_id = next(job["id"] for job in (await api.call("GET", "/api/jobs?name=second"))[1]["jobs"])
            await api.until_state(second_id, "failed", "retrying")
    by_name: dict[str, Any] = {span.name: span for span in spans.get_finished_spans()}
    assert {"create first", "process first", "create second", "process second"} <= set(by_name)
    (trace,) = {span.context.trace_id for span in by_name.values()}
    assert by_name["process first"].parent.span_id == by_name["create first"].context.span_id
    assert by_name["create second"].parent.span_id == by_name["process first"].context.span_id
    failed = by_name["process second"]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "ValueError")
    assert [(event.name, dict(event.attributes)) for event in failed.events] == [
        ("exception", {"exception.type": "ValueError"})
    ]
    assert by_name["process first"].attributes["messaging.message.id"] == job_id
    # The master sends the remaining spans when it ends.
    masters = {(span.name, span.trace_id) for span in collector.spans}
    ours = trace.to_bytes(16, "big")
    assert {("enqueue first", ours), ("offer first", ours), ("enqueue second", ours)} <= masters


def test_the_text_of_an_exception_is_recorded_only_when_asked_for(spans: InMemorySpanExporter) -> None:
    def fail() -> None:
        with tracing.processing("n", "id", 1, {}):
            raise ValueError("card-4711-SECRET")

    with pytest.raises(ValueError, match="card"):
        fail()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing.instrument(provider, exception_texts=True)
    with pytest.raises(ValueError, match="card"):
        fail()
    without, with_text = spans.get_finished_spans()
    assert "SECRET" not in without.to_json()
    assert "SECRET" in with_text.to_json()
    provider.shutdown()


async def test_a_job_with_its_callers_own_id_may_be_repeated_in_another_trace(
    api: Api, spans: InMemorySpanExporter
) -> None:
    async with Pusher(str(api.http.base_url)) as pusher:
        for _ in range(2):
            assert await pusher.enqueue("n", id="01999999-0000-7000-8000-000000000001")
    assert spans.get_finished_spans() == ()


async def test_without_instrumentation_nothing_is_added(api: Api) -> None:
    async with Pusher(str(api.http.base_url)) as pusher:
        job = await api.job(await pusher.enqueue("n"))
    assert job["headers"] == {}
