"""Check that the collector of traces accepts spans, before there are spans."""

import asyncio
import contextlib
import os
import ssl
import threading
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import unquote, urlsplit

from jqmaster.errors import JqmasterError
from worker_sdk.transport.call_faults import Remedies, explained

TRACES_PATH: Final = "/v1/traces"
TIMEOUT_S: Final = 5.0
_GRPC_PORT: Final = 4317
_REMEDIES: Final = Remedies(
    "does a collector run there, with OTLP over HTTP (usually port 4318)?",
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
)
_BY_STATUS: Final = {
    401: (
        "set OTEL_EXPORTER_OTLP_HEADERS to the headers that the collector requires, such as "
        "authorization=Bearer%20…"
    ),
    403: (
        "set OTEL_EXPORTER_OTLP_HEADERS to the headers that the collector requires, such as "
        "authorization=Bearer%20…"
    ),
    404: f"traces_endpoint is the address without {TRACES_PATH}",
}


class TraceCollector:
    """A collector at `endpoint`, the setting `traces_endpoint`. Headers and certificates come from the
    environment variables of OpenTelemetry, as for the spans themselves."""

    def __init__(self, endpoint: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = endpoint.rstrip("/") + TRACES_PATH
        self._timeout_s = timeout_s
        self._has_answered = False

    async def probe(self) -> None:
        """Send an empty list of spans, which collectors must accept. Raise JqmasterError if the collector does
        not accept it."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[str] = loop.create_future()

        def tell(fault: str) -> None:
            if not found.done():
                found.set_result(fault)

        def ask() -> None:
            fault = self._fault()
            with contextlib.suppress(RuntimeError):  # the event loop ended before the answer came
                loop.call_soon_threadsafe(tell, fault)

        # Use a daemon thread, because a thread of `asyncio.to_thread` would delay the end of the process.
        threading.Thread(target=ask, name="jq-traces-probe", daemon=True).start()
        if fault := await found:
            raise JqmasterError(f"the collector at {self.url} takes no spans: {fault}")

    def _fault(self) -> str:
        """Return the fault; an empty text if there is none."""
        try:
            request = urllib.request.Request(  # noqa: S310 - the setting allows http and https only
                self.url, b"", {"content-type": "application/x-protobuf", **_headers()}, method="POST"
            )
            with urllib.request.urlopen(request, timeout=self._timeout_s, context=self._context()):  # noqa: S310
                self._has_answered = True
                return ""
        except urllib.error.HTTPError as exc:
            exc.close()
            self._has_answered = True
            advice = _BY_STATUS.get(exc.code, "")
            return f"it answers {exc.code}" + (f"; {advice}" if advice else "")
        except Exception as exc:  # report any error, because the caller waits for an answer
            cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
            text = (
                explained(cause, self.url, _REMEDIES, has_answered=self._has_answered)
                if isinstance(cause, BaseException)
                else str(cause)
            )
            is_grpc = urlsplit(self.url).port == _GRPC_PORT
            return (
                f"{text}; {_GRPC_PORT} is the port of gRPC, and OTLP over HTTP has 4318" if is_grpc else text
            )

    def _context(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https:"):
            return None
        context = ssl.create_default_context(cafile=_variable("CERTIFICATE"))
        if certfile := _variable("CLIENT_CERTIFICATE"):
            context.load_cert_chain(certfile, _variable("CLIENT_KEY"))
        return context


def _variable(name: str) -> str | None:
    return os.environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or os.environ.get(f"OTEL_EXPORTER_OTLP_{name}")


def _headers() -> dict[str, str]:
    """Return the headers in the variable: percent-encoded texts `name=value`, separated by commas."""
    pairs = (part.partition("=") for part in (_variable("HEADERS") or "").split(",") if "=" in part)
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
