"""The master's part of a trace: spans for its work on jobs with a `traceparent` (W3C Trace Context).

Pushers put `traceparent` into the job's headers, and workers continue the trace (worker_sdk/tracing.py). The
master changes no header, because a repeated push must have the same content. Names follow the conventions of
OpenTelemetry for messaging."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jqmaster.config import Settings
from jqmaster.errors import JqmasterError
from jqmaster.net.trace_collector import TraceCollector

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

logger = logging.getLogger(__name__)

HEADER: Final = "traceparent"
STOP_WITHIN_S: Final = 5.0
_CARRIED: Final = (HEADER, "tracestate")


class Tracing:
    """Component: the destination of this master's spans."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("jqmaster")
        self._propagator = TraceContextTextMapPropagator()

    @classmethod
    def from_settings(cls, settings: Settings, master_id: str, version: str) -> "Tracing | None":
        """Return the component, or None if no endpoint is set. Raise JqmasterError if the extra `tracing` is not
        installed."""
        if settings.traces_endpoint is None:
            return None
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as exc:
            raise JqmasterError("traces_endpoint is set: install jqmaster[tracing]") from exc
        provider = TracerProvider(
            resource=Resource.create(
                {"service.name": "jqmaster", "service.version": version, "service.instance.id": master_id}
            ),
            # `stop` shuts the provider down within a time limit, so the provider need not shut itself down at
            # exit.
            shutdown_on_exit=False,
        )
        endpoint = TraceCollector(settings.traces_endpoint).url
        # Send from a separate thread with a bounded queue. If the collector is away, spans are lost, but no job
        # waits for the collector.
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint)))
        return cls(provider)

    def begin(
        self,
        operation: str,
        jobs: Iterable[tuple[str, str, Mapping[str, str]]],
        attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> "list[Span]":
        """Begin spans, and return them for `end`. `jobs`: the ID, name and headers of each job. Jobs without a
        trace are skipped."""
        return [
            self._tracer.start_span(
                f"{operation} {name}",
                self._propagator.extract({key: headers[key] for key in _CARRIED if key in headers}),
                attributes={
                    "messaging.system": "jqmaster",
                    "messaging.operation.name": operation,
                    "messaging.destination.name": name,
                    "messaging.message.id": job_id,
                    **attributes,
                },
            )
            for job_id, name, headers in jobs
            if HEADER in headers
        ]

    @staticmethod
    def end(spans: "Iterable[Span]", outcome: str) -> None:
        """End the spans now, with this outcome."""
        for span in spans:
            span.set_attribute("jqmaster.outcome", outcome)
            span.end()

    async def start(self) -> None:
        """Do nothing. The exporter starts with the first span."""

    async def stop(self) -> None:
        """Send the remaining spans. A collector that hangs delays the end by at most `STOP_WITHIN_S` seconds."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with contextlib.suppress(RuntimeError):  # the event loop ended before the shutdown
                loop.call_soon_threadsafe(done.set)

        # Use a daemon thread, because a thread of `asyncio.to_thread` would delay the end of the process.
        threading.Thread(target=shut_down, name="jq-traces-end", daemon=True).start()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await done.wait()
        except TimeoutError:
            logger.warning(
                "the collector of traces does not take the last spans within %.0f s; they are lost",
                STOP_WITHIN_S,
            )
