"""Send requests to HTTP targets. A call returns its end and does not raise, because an endpoint that misbehaves is an
everyday outcome."""

import functools
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from jqmaster.domain.fireworq.answer import PERMANENT_FAILURE, SUCCESS, verdict_of
from jqmaster.domain.notices.webhook import origin_of, path_of, signature
from jqmaster.domain.targets.answer import AWAIT_FIELD, DeliveryEnd, DeliveryResult, judged
from jqmaster.domain.targets.figures import MAX_EXCERPT_CHARS
from jqmaster.domain.targets.target import BodyForm, HttpTarget
from jqmaster.errors import AddressRefusedError, JqmasterError
from jqmaster.live_value import LiveValue
from jqmaster.net.egress import EgressGuard, GuardedRoute
from jqmaster.net.webhook_secret import secret_bytes
from jqmaster.runtime.outbound.webhook_client import retry_after_s
from worker_sdk.transport.answer_bodies import BodyLimit
from worker_sdk.transport.http_client import (
    HttpAnswer,
    HttpClient,
    NoAnswerError,
    NotSentError,
    TooLargeAnswerError,
    field_lines,
)

CONNECT_TIMEOUT_S: Final = 5.0
# Maximum size of an answer. It equals the largest value of `max_result_bytes`. A larger answer is cut off.
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
# As JSON, a result may take up to this many times its size in MessagePack.
_JSON_FACTOR: Final = 4
# Maximum number of bytes that all answers together may hold while they arrive, not counting the first 16 KiB of each.
MAX_BODIES_BYTES: Final = 64 * 1024 * 1024
# How long an idle connection is reused. Many servers close a connection that has been idle for 5 s, and a request must
# not be sent just then.
MAX_IDLE_S: Final = 4.0
_KEPT: Final = frozenset({b"retry-after", b"content-type", AWAIT_FIELD.encode()})
_JSON: Final = "application/json"
_EXCERPT_BYTES: Final = 4 * MAX_EXCERPT_CHARS


@dataclass(frozen=True, slots=True)
class JobRequestToTarget:
    """One request. `fields`: header fields about the job. `timeout_s`: for the whole exchange."""

    url: str = field(repr=False)
    job_id: str
    body: bytes = field(repr=False)
    fields: Mapping[str, str]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class TargetAnswer:
    """The end of a request.

    * `was_sent`: a part of the request may have reached the endpoint.
    * `fields` and `body`: header fields and body of the answer. The body is shortened for display.
    """

    end: DeliveryEnd
    was_sent: bool
    fields: Mapping[str, str] = field(default_factory=dict)
    excerpt: str = ""
    is_refused: bool = False
    timed_out: bool = False


class TargetClient:
    """Component: calls HTTP targets. It keeps connections, and follows no redirects.

    * `guard`: decides where it may connect.
    * `read_json`: turns JSON into MessagePack that every later reader can decode. Raises JqmasterError.
    * `max_result_bytes`: the largest result of a job.
    """

    def __init__(
        self,
        guard: EgressGuard,
        read_json: Callable[[bytes], bytes],
        max_result_bytes: LiveValue[int],
    ) -> None:
        self._read_json = read_json
        self._max_result_bytes = max_result_bytes
        self._http = HttpClient(
            GuardedRoute(guard, _system_context),
            max_answer_bytes=MAX_ANSWER_BYTES,
            kept_fields=_KEPT,
            is_end_an_answer=True,
            max_idle_s=MAX_IDLE_S,
            max_bodies_bytes=MAX_BODIES_BYTES,
        )

    async def start(self) -> None:
        """Do nothing: nothing runs before the first request."""

    async def stop(self) -> None:
        await self._http.close()

    @property
    def open_connections(self) -> int:
        return self._http.open_connections

    async def call(self, target: HttpTarget, request: JobRequestToTarget) -> TargetAnswer:
        """Send a request once."""
        body = request.body if target.has_body else None
        try:
            answer = await self._http.call(
                target.method,
                origin_of(request.url),
                path_of(request.url),
                body,
                field_lines(self.fields_of(target, request)),
                timeout_s=request.timeout_s,
                connect_timeout_s=min(CONNECT_TIMEOUT_S, request.timeout_s),
                body_limit=functools.partial(self._body_limit, target),
            )
        except AddressRefusedError as exc:
            if exc.code == "address_unresolved":
                return _unsent(f"cannot be reached ({exc.detail})")
            end = DeliveryEnd(DeliveryResult.FAILED, f"not called: {exc.detail}", code="address_refused")
            return TargetAnswer(end, was_sent=False, is_refused=True)
        except (NotSentError, ssl.SSLError) as exc:
            return _unsent(f"cannot be reached ({exc})")
        except TooLargeAnswerError as exc:
            return self._too_large(exc.status)
        except NoAnswerError as exc:
            end = DeliveryEnd(DeliveryResult.FAILED, f"no answer ({exc})", code="no_answer")
            return TargetAnswer(end, was_sent=True, timed_out=str(exc) == "timed out")
        except ValueError:
            end = DeliveryEnd(DeliveryResult.REJECTED, "the address cannot be called", code="bad_address")
            return TargetAnswer(end, was_sent=False)
        return self._judged(target, answer)

    @staticmethod
    def fields_of(target: HttpTarget, request: JobRequestToTarget) -> dict[str, str]:
        """Return all fields of a request's head, with its signature."""
        fields = {"User-Agent": "jqmaster", "Accept": _JSON, "Accept-Encoding": "identity"}
        if target.has_body:
            fields["Content-Type"] = _JSON
        fields |= request.fields
        # Use the wall clock: endpoints compare this time with their own clocks.
        now_s = time.time()
        if secrets := target.secret.at(int(now_s * 1000)):
            body = request.body if target.has_body else b""
            # Use the same ID for all attempts of a job, because Standard Webhooks requires an ID that identifies the
            # message.
            fields |= {
                "webhook-id": request.job_id,
                "webhook-timestamp": str(int(now_s)),
                "webhook-signature": signature(map(secret_bytes, secrets), request.job_id, int(now_s), body),
            }
        return {**fields, **target.headers}

    def _body_limit(self, target: HttpTarget, status: int) -> BodyLimit:
        """Return the part of an answer's body to keep: a whole result, or the beginning for people."""
        if target.body is BodyForm.FIREWORQ:
            return BodyLimit(MAX_ANSWER_BYTES)
        if not target.is_ok(status):
            return BodyLimit(_EXCERPT_BYTES, is_cut=True)
        most = self._max_result_bytes.current
        return BodyLimit(max(most, min(_JSON_FACTOR * most, MAX_ANSWER_BYTES)))

    def _judged(self, target: HttpTarget, answer: HttpAnswer) -> TargetAnswer:
        if target.body is BodyForm.FIREWORQ:
            return TargetAnswer(_of_fireworq(answer), was_sent=True, excerpt=excerpt_of(answer.body))
        end = judged(
            target,
            answer.status,
            retry_after_s=retry_after_s(answer.retry_after),
            await_text=answer.fields.get(AWAIT_FIELD.encode()),
        )
        fields = {name.decode(): value for name, value in answer.fields.items()}
        excerpt = excerpt_of(answer.body)
        if end.result is DeliveryResult.SUCCEEDED and answer.body:
            try:
                value = self._read_json(answer.body)
            except JqmasterError as exc:
                # The endpoint has done the job. A repeat to get a result would be worse than a missing result.
                end = DeliveryEnd(
                    end.result,
                    f"status {answer.status}; its body is not a result ({exc.detail})",
                    answer.status,
                )
            else:
                if len(value) > self._max_result_bytes.current:
                    return self._too_large(answer.status)
                end = DeliveryEnd(end.result, end.detail, answer.status, value=value)
        return TargetAnswer(end, was_sent=True, fields=fields, excerpt=excerpt)

    def _too_large(self, status: int) -> TargetAnswer:
        end = DeliveryEnd(
            DeliveryResult.REJECTED,
            f"status {status}, and the answer is larger than {self._max_result_bytes.current} bytes "
            "(max_result_bytes); the request is not repeated",
            status,
            code="answer_too_large",
        )
        return TargetAnswer(end, was_sent=True)


def _of_fireworq(answer: HttpAnswer) -> DeliveryEnd:
    verdict = verdict_of(answer.body)
    result = {SUCCESS: DeliveryResult.SUCCEEDED, PERMANENT_FAILURE: DeliveryResult.REJECTED}.get(
        verdict.status, DeliveryResult.FAILED
    )
    return DeliveryEnd(
        result,
        f"the endpoint answered {verdict.status}",
        answer.status,
        code=verdict.code(answer.status),
        said=verdict.message,
    )


def excerpt_of(body: bytes) -> str:
    """Return the beginning of a body, for people."""
    return body[:_EXCERPT_BYTES].decode(errors="replace")[:MAX_EXCERPT_CHARS]


def _unsent(detail: str) -> TargetAnswer:
    return TargetAnswer(DeliveryEnd(DeliveryResult.UNREACHABLE, detail, code="unreachable"), was_sent=False)


@functools.cache
def _system_context() -> ssl.SSLContext:
    return ssl.create_default_context()
