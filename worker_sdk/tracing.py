"""Traces: from the pusher through the master to the handler, as OpenTelemetry knows them (the extra `tracing`).

Off, and free, until `instrument()`. The context travels as `traceparent` (W3C Trace Context) among the job's headers,
made when the job is; names and attributes follow OpenTelemetry's conventions for messaging (`create`, `process`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

HEADER: Final = "traceparent"
SYSTEM: Final = "jqmaster"

_tracer: "Tracer | None" = None


def instrument(tracer_provider: "TracerProvider | None" = None) -> None:
    """Give enqueued jobs a trace, and run handlers within the trace of their job.

    * `tracer_provider`: receives the spans. Default: the application's global provider.

    Raise ImportError without the package opentelemetry-api (the extra `tracing`).
    """
    global _tracer  # noqa: PLW0603  one switch for the process, as instrumentations have it
    from opentelemetry.trace import get_tracer

    _tracer = get_tracer("worker_sdk", tracer_provider=tracer_provider)


def uninstrument() -> None:
    """Undo `instrument`."""
    global _tracer  # noqa: PLW0603
    _tracer = None


def is_on() -> bool:
    return _tracer is not None


def note_creation(job: dict[str, Any]) -> None:
    """Give a new job (a map as the master takes it) the current trace, or one of its own. A `traceparent` that it has
    already stays."""
    headers = job.get("headers") or {}
    if _tracer is None or HEADER in headers:
        return
    from opentelemetry.trace import SpanKind

    name = job["name"]
    span = _tracer.start_span(
        f"create {name}",
        kind=SpanKind.PRODUCER,
        attributes=_attributes("create", name, str(job["id"])),
    )
    span.end()
    job["headers"] = {**headers, **_carrier(span)}


@contextmanager
def processing(
    name: str, job_id: str, attempt: int, headers: Mapping[str, str]
) -> "Iterator[Mapping[str, str]]":
    """Surround the run of a handler, and yield the headers that continue the trace from here. Record an exception, and
    let it pass."""
    if _tracer is None:
        yield headers
        return
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    with _tracer.start_as_current_span(
        f"process {name}",
        propagator.extract({key: headers[key] for key in (HEADER, "tracestate") if key in headers}),
        kind=SpanKind.CONSUMER,
        attributes={**_attributes("process", name, job_id), "jqmaster.job.attempt": attempt},
    ) as span:
        yield {**headers, **_carrier(span)}


def _carrier(span: "Span") -> dict[str, str]:
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, set_span_in_context(span))
    return carrier


def _attributes(operation: str, name: str, job_id: str) -> dict[str, str]:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": name,
        "messaging.message.id": job_id,
    }
