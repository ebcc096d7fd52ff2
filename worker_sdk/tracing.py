"""OpenTelemetry traces from the pusher through the master to the handler (the extra `tracing`).

Tracing is off, and costs nothing, until `instrument()` is called. When a job is made, its headers get the context as
`traceparent` (W3C Trace Context). Names and attributes follow OpenTelemetry's conventions for messaging (`create`,
`process`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

HEADER: Final = "traceparent"
SYSTEM: Final = "jqmaster"

_tracer: "Tracer | None" = None
# Whether `instrument` was called.
is_on = False
_has_exception_texts = False


def instrument(tracer_provider: "TracerProvider | None" = None, *, exception_texts: bool = False) -> None:
    """Give enqueued jobs a trace, and run handlers within the trace of their job.

    * `tracer_provider`: receives the spans. Default: the application's global provider.
    * `exception_texts`: record the text and the traceback of a handler's exception in addition to its type. The text
      and the traceback may contain values that the masters' setting `redact_paths` hides from people.

    Raise ImportError without the package opentelemetry-api (the extra `tracing`).

    For example:

        tracing.instrument()
    """
    global _tracer, _has_exception_texts, is_on  # noqa: PLW0603  one switch for the process, as instrumentations have it
    # Import this module now. Otherwise the first push would import it, and a signal handler may enqueue in the middle
    # of that import.
    import opentelemetry.trace.propagation.tracecontext  # noqa: F401
    from opentelemetry.trace import get_tracer

    _tracer = get_tracer("worker_sdk", tracer_provider=tracer_provider)
    is_on = True
    _has_exception_texts = exception_texts


def uninstrument() -> None:
    """Undo `instrument`.

    For example:

        tracing.uninstrument()
    """
    global _tracer, is_on
    _tracer, is_on = None, False


def note_creation(job: dict[str, Any]) -> None:
    """Give a new job, in wire form, the current trace, or else a new trace. A `traceparent` that the job already has
    stays."""
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
    """Surround the run of a handler, and yield the headers that continue the trace from here. Record an exception, with
    its text only if `instrument` has enabled that, and let it pass."""
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
        record_exception=_has_exception_texts,
        set_status_on_exception=_has_exception_texts,
    ) as span:
        try:
            yield {**headers, **_carrier(span)}
        except Exception as exc:
            if not _has_exception_texts:
                _note_type(span, exc)
            raise


def _note_type(span: "Span", exc: Exception) -> None:
    """Record an exception as OpenTelemetry does, but without its text."""
    from opentelemetry.trace import Status, StatusCode

    kind = type(exc)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    span.add_event("exception", {"exception.type": name})
    span.set_status(Status(StatusCode.ERROR, name))


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
